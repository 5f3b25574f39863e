package config

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time as people write it: 90s, 15m, 1h30m, 7d, 2w.
type Duration time.Duration

// UnmarshalText reads a duration that is not negative.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	if err == nil {
		*d = Duration(parsed)
	}
	return err
}

// MarshalText writes a duration without the zero units that Go adds: 15m.
func (d Duration) MarshalText() ([]byte, error) { return []byte(Span(time.Duration(d))), nil }

// Set makes a Duration a flag.
func (d *Duration) Set(v string) error { return d.UnmarshalText([]byte(v)) }

func (d Duration) String() string {
	if d == 0 {
		return ""
	}
	return Span(time.Duration(d))
}

// Span writes a duration short and exact: 7d, 15m, 1h30m, 1.5s.
func Span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

const wantDuration = "want a duration such as 90s, 15m, 1h30m or 7d"

// ParseDuration is time.ParseDuration with days and weeks in front: 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	bad := errors.New(wantDuration)
	var sum time.Duration
	rest := text
	for _, unit := range []struct {
		letter string
		length time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		count, after, ok := strings.Cut(rest, unit.letter)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(count, 10, 16)
		if err != nil {
			return 0, bad
		}
		sum, rest = sum+time.Duration(n)*unit.length, after
	}
	if rest == "" && text != "" {
		return sum, nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || strings.HasPrefix(text, "+") {
		return 0, bad
	}
	return sum + d, nil
}
