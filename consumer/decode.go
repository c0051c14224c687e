package consumer

import "time"

// Limits bound what one event may hold.
type Limits struct {
	MaxEventBytes int           // bytes of the value, default 64 KiB
	MaxIDBytes    int           // bytes of an id or class after unescaping, default 256
	MaxDepth      int           // nested objects and arrays, the event itself being 1; default 32
	MaxMulti      int           // elements of a list, default 1024
	MaxNumber     float64       // largest magnitude of a number, default 1e15: its square and products stay finite and exact enough
	MaxFutureSkew time.Duration // an event time further ahead of the record's becomes the record's, default 5 min
}

// DefaultLimits returns the defaults named at the fields.
func DefaultLimits() Limits {
	return Limits{MaxEventBytes: 64 << 10, MaxIDBytes: 256, MaxDepth: 32, MaxMulti: 1024, MaxNumber: 1e15, MaxFutureSkew: 5 * time.Minute}
}

// Decoder decodes the JSON events of one schema. It is not safe for concurrent use.
type Decoder struct {
	// RequireLabel is true for learning. If false, as for scoring, label, time, weight and identity may be absent; they are still
	// checked if present.
	RequireLabel bool

	schema Schema
	limits Limits
}

// NewDecoder returns a decoder that requires a label. The error is that of Schema.Validate.
func NewDecoder(s Schema, l Limits) (*Decoder, error) {
	return &Decoder{RequireLabel: true, schema: s, limits: l}, nil
}

// Decode stores the event of value in ev and returns "", or returns why it is none; ev is then undefined. recordTime is the record's
// time stamp. ev's slices are reused.
func (d *Decoder) Decode(ev *Event, value []byte, recordTime int64) Reason {
	return NotJSON
}
