package event

import "fmt"

// Reason says why a record is not an event; empty means that it is one. The names are label values of metrics and part
// of the command line contract.
type Reason string

// The reasons. A record has one: null_value, too_large (bytes) and not_utf8 go before errors of syntax, of which the
// first in the value counts; then fields, in the order of the value; then missing_field.
const (
	NullValue Reason = "null_value" // the record has no value (a tombstone)
	// more than Limits.MaxEventBytes, Limits.MaxMulti in a list, 1024 names in an object, or than the sample has room
	// for
	TooLarge     Reason = "too_large"
	NotUTF8      Reason = "not_utf8"      // bytes that are not UTF-8
	NotJSON      Reason = "not_json"      // not JSON by RFC 8259, the empty value and literals such as NaN included
	NotObject    Reason = "not_object"    // JSON, but not an object
	TooDeep      Reason = "too_deep"      // nested deeper than Limits.MaxDepth
	DuplicateKey Reason = "duplicate_key" // the same name twice in one object, at any depth
	TrailingData Reason = "trailing_data" // anything but white space after the object
	WrongType    Reason = "wrong_type"    // a field of the schema has a JSON type that it cannot have
	NotFinite    Reason = "not_finite"    // a string that spells NaN or an infinity in place of a number
	NumberRange  Reason = "number_range"  // a number that is subnormal or larger than Limits.MaxNumber
	LabelRange   Reason = "label_range"   // not a level, not 0 or 1, outside of the schema's bounds, or beyond ±1e9
	// a class that the schema does not list, or a name that is neither schema.positive nor schema.negative
	LabelUnknown  Reason = "label_unknown"
	TimeInvalid   Reason = "time_invalid"   // before 1970, after 9999, or not RFC 3339
	IDEmpty       Reason = "id_empty"       // an empty string in place of an id or a class
	IDTooLong     Reason = "id_too_long"    // an id or a class of more than Limits.MaxIDBytes
	WeightInvalid Reason = "weight_invalid" // a weight that is not in (0, 1e6]
	MissingField  Reason = "missing_field"  // a field of the schema is absent or null
	NotAvro       Reason = "not_avro"       // bytes that do not fit their Avro schema, or have no frame
	NotProtobuf   Reason = "not_protobuf"   // bytes that do not fit their Protobuf message, or have no frame
)

// The reasons of records that a Mapping does not make events of, and that are not wrong for that.
const (
	Filtered Reason = "filtered" // input.mapping.when does not hold, or the envelope has no event
	// a Debezium delete or tombstone: what it is about has to be removed by refitd state forget
	RemovalRequest Reason = "removal_request"
)

// Panicked is not about the record but about this program: its decoder panicked on it, twice.
const Panicked Reason = "panic"

// Reasons lists those about records, for metrics that should exist before the first rejection.
var Reasons = []Reason{
	NullValue,
	TooLarge,
	NotUTF8,
	NotJSON,
	NotObject,
	TooDeep,
	DuplicateKey,
	TrailingData,
	WrongType,
	NotFinite,
	NumberRange,
	LabelRange,
	LabelUnknown,
	TimeInvalid,
	IDEmpty,
	IDTooLong,
	WeightInvalid,
	MissingField,
}

// FormatCauses lists the causes of records that are not of a format, in addition to those of the schema.
func FormatCauses(format string) (list []Cause) {
	for _, f := range Formats {
		if r := notReasons[f]; r != NotJSON && (format == f || format == FormatAuto) {
			list = append(list, Cause{Reason: r})
		}
	}
	return list
}

// A Rejection says of a value why it is not an event, and nothing of what the value holds: Field is a name of the
// schema, never one of the value's own, Expected and Got are kinds of values.
type Rejection struct {
	Reason   Reason
	Field    string // of the schema; "" where the reason is about the value as a whole
	Expected string // "a number", "at most 256 bytes"
	Got      string // "a string", "nothing"
}

// String returns a sentence such as "wrong_type: field "age": expected a number, got a string".
func (r *Rejection) String() string {
	text := string(r.Reason)
	if r.Field != "" {
		text += fmt.Sprintf(": field %q", r.Field)
	}
	if r.Expected != "" {
		text += fmt.Sprintf(": expected %s, got %s", r.Expected, r.Got)
	}
	return text
}

// A Cause is what rejections are counted by.
type Cause struct {
	Reason Reason
	Field  string // as in Rejection
}

// String returns the reason and, behind a space, the field if there is one.
func (c Cause) String() string {
	if c.Field == "" {
		return string(c.Reason)
	}
	return string(c.Reason) + " " + c.Field
}

// MarshalText is String, for counts by cause in logs.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Cause returns the reason and the field.
func (r *Rejection) Cause() Cause { return Cause{r.Reason, r.Field} }
