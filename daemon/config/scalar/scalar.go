// Package scalar has the types of the single values of a configuration file: how each is written, read and printed. A
// value is checked alone; whether it fits the rest of the file, package config knows.
// Values are plain and may be read from any goroutine.
package scalar

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
)

// Auto is the value of a setting that follows from something else.
const Auto = "auto"

// A Duration is written as 30s, 5m, 12h or 7d.
type Duration time.Duration

// UnmarshalText parses a duration; a trailing d counts days of 24 hours.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || math.Abs(n) > math.MaxInt64/float64(24*time.Hour) || math.IsNaN(n) {
			return errDuration
		}
		*d = Duration(n * float64(24*time.Hour))
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return errDuration
	}
	*d = Duration(v)
	return nil
}

var errDuration = errors.New("is not a duration: write a number with a unit, such as 500ms, 30s, 5m, 12h or 7d")

// MarshalText writes the duration as time.Duration prints it.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String prints the duration as time.Duration does.
func (d Duration) String() string { return time.Duration(d).String() }

// Std returns the duration as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// A Size is a number of bytes, written as 65536, 64KiB, 16MiB or 2GiB.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB",
	1e12}, {"B", 1}}

var errSize = errors.New("is not a size: write bytes, or a number with a unit, such as 64KiB, 16MiB or 2GiB")

// UnmarshalText parses a size. Fractions are allowed before a unit.
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for _, u := range sizeUnits {
		if n, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = strings.TrimSpace(n), u.bytes
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/unit {
		*s = Size(n * unit)
		return nil
	}
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || unit == 1 || !(f >= 0) || f*float64(unit) >= math.MaxInt64 {
		return errSize
	}
	*s = Size(f * float64(unit))
	return nil
}

// MarshalText writes the size as String does.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String prints the size in the largest binary unit that divides it.
func (s Size) String() string {
	for i := 3; i >= 0; i-- {
		if u := sizeUnits[i]; s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Lambda is the strength of the penalty per 10,000 rows of weight; 0 chooses it on the select rows.
type Lambda float64

// UnmarshalText parses auto or a positive number.
func (l *Lambda) UnmarshalText(text []byte) error {
	if string(text) == Auto {
		*l = 0
		return nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return errors.New("is not a strength: write auto or a positive number")
	}
	*l = Lambda(v)
	return nil
}

// MarshalText writes auto or the number.
func (l Lambda) MarshalText() ([]byte, error) {
	if l == 0 {
		return []byte(Auto), nil
	}
	return strconv.AppendFloat(nil, float64(l), 'g', -1, 64), nil
}

// IsAuto reports whether the strength is to be chosen on the select rows.
func (l Lambda) IsAuto() bool { return l == 0 }

// CatchUp is how much learning may be left before a model that is behind learns from a share of the events; 0 learns
// from all of them.
type CatchUp time.Duration

// learnAll is the CatchUp of 0.
const learnAll = "learn_all"

// AutoCatchUp is the CatchUp of auto: what a consumer does not notice. Chosen by hand.
const AutoCatchUp = CatchUp(time.Second)

// UnmarshalText parses auto, learn_all or a duration.
func (c *CatchUp) UnmarshalText(text []byte) error {
	switch string(text) {
	case learnAll:
		*c = 0
		return nil
	case Auto:
		*c = AutoCatchUp
		return nil
	}
	var d Duration
	if err := d.UnmarshalText(text); err != nil || d <= 0 {
		return errors.New("is not a time to catch up in: write auto, learn_all, or a duration such as 1s or 1m")
	}
	*c = CatchUp(d)
	return nil
}

// MarshalText writes learn_all or the duration.
func (c CatchUp) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// String prints learn_all or the duration.
func (c CatchUp) String() string {
	if c == 0 {
		return learnAll
	}
	return time.Duration(c).String()
}

// Std returns the duration.
func (c CatchUp) Std() time.Duration { return time.Duration(c) }

// Vectors is a number of basis vectors; 0 chooses it by the rows.
type Vectors int

// UnmarshalText parses auto or a positive whole number.
func (n *Vectors) UnmarshalText(text []byte) error {
	if string(text) == Auto {
		*n = 0
		return nil
	}
	v, err := strconv.Atoi(string(text))
	if err != nil || v <= 0 {
		return errors.New("is not a number of basis vectors: write auto or a positive whole number")
	}
	*n = Vectors(v)
	return nil
}

// MarshalText writes auto or the number.
func (n Vectors) MarshalText() ([]byte, error) {
	if n == 0 {
		return []byte(Auto), nil
	}
	return strconv.AppendInt(nil, int64(n), 10), nil
}

// TopK is how many margins a loss of the best k looks at; 0 is UsualTopK, or all but one class of fewer.
type TopK int

// UsualTopK is k of the experiments of Tajima et al. 2020.
const UsualTopK = 5

var errTopK = errors.New(
	"is not a number of margins: write auto, or a whole number from 1 to one less than the classes")

// UnmarshalText parses auto or a positive whole number.
func (k *TopK) UnmarshalText(text []byte) error {
	if string(text) == Auto {
		*k = 0
		return nil
	}
	v, err := strconv.Atoi(string(text))
	if err != nil || v < 1 {
		return errTopK
	}
	*k = TopK(v)
	return nil
}

// UnmarshalJSON parses the number that stored models have.
func (k *TopK) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, (*int)(k)) }

// Of returns k for a number of classes, or where that is not known yet.
func (k TopK) Of(classes int) int {
	switch {
	case k > 0:
		return int(k)
	case classes > 1:
		return min(UsualTopK, classes-1)
	}
	return UsualTopK
}

// Linear is the ridge strength of the separate linear term; 0 leaves the term out.
type Linear float64

// UnmarshalText parses none or ridge:STRENGTH.
func (l *Linear) UnmarshalText(text []byte) error {
	if string(text) == "none" {
		*l = 0
		return nil
	}
	number, ok := strings.CutPrefix(string(text), "ridge:")
	v, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(v > 0) || math.IsInf(v, 0) {
		return errors.New("is not a linear term: write ridge:0.5 (any positive strength) or none")
	}
	*l = Linear(v)
	return nil
}

// MarshalText writes none or ridge:STRENGTH.
func (l Linear) MarshalText() ([]byte, error) {
	if l == 0 {
		return []byte("none"), nil
	}
	return strconv.AppendFloat([]byte("ridge:"), float64(l), 'g', -1, 64), nil
}

// A ClassName is a class of the label, written as text or as a number.
type ClassName string

// UnmarshalText takes the text as it is; true and false stand for the binary classes 1 and 0.
func (c *ClassName) UnmarshalText(text []byte) error {
	switch *c = ClassName(text); *c {
	case "true":
		*c = "1"
	case "false":
		*c = "0"
	}
	return nil
}

// A Switch is true, false or auto.
type Switch string

// UnmarshalText parses true, false or auto.
func (s *Switch) UnmarshalText(text []byte) error {
	switch v := string(text); v {
	case Auto, "true", "false":
		*s = Switch(v)
		return nil
	}
	return errors.New("is not a switch: write true, false or auto")
}

// On reports whether the resolved switch is true.
func (s Switch) On() bool { return s == "true" }

// A Secret is a password or token. It prints as <redacted> through fmt, JSON, text encoders and slog; Reveal returns
// it.
type Secret struct{ value string }

// Redacted takes the place of what is secret, or may be.
const Redacted = "<redacted>"

// NewSecret wraps value.
func NewSecret(value string) Secret { return Secret{value} }

// Reveal returns the secret itself, for the one place that sends it.
func (s Secret) Reveal() string { return s.value }

// String returns a placeholder, or "" for an empty secret.
func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return Redacted
}

// Format keeps every fmt verb from reaching the value.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText returns the placeholder.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue returns the placeholder.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
