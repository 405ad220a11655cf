// Package when reads and writes times as people say them: "2 hours ago", "yesterday",
// "2026-11-20 14:00". It computes only: what time it is, callers say.
package when

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/boocode/filestore/internal/words"
)

// maxYears is how long ago a time may be. What is longer ago was mistyped.
const maxYears = 200

// ErrSyntax: a text is no time that Parse reads.
var ErrSyntax = errors.New(`want a time ago such as 2h, "3 days ago" or yesterday, ` +
	`or a date such as 2026-11-20 or "2026-11-20 14:00"`)

// Parse returns the time that a text names, seen from now, whose location is that of
// dates and hours. A dot may stand for a space, as in 2.hours.ago. It reads
//
//   - how long ago: 2h, 1h30m, 3d, 2w, 1y, with "ago" or without; 2 hours ago, an hour
//     ago, 3 weeks, 5 months, 2 years;
//   - now; yesterday, at this hour, as git has it; today, which begins at 00:00;
//   - a day of the week, the last one that began before today: monday, last friday;
//   - a date, which begins at 00:00: 2026-11-20;
//   - an hour, the last one that was: 14:00, 9:30:15, noon, midnight;
//   - an hour behind today, yesterday, a day of the week or a date: 2026-11-20 14:00;
//   - RFC 3339: 2026-11-20T14:00:00Z, also without seconds or zone.
//
// Any other text is an error that matches [ErrSyntax], and so is a time of more than 200
// years ago.
func Parse(text string, now time.Time) (time.Time, error) {
	t, ok := parse(text, now)
	if !ok || t.Before(now.AddDate(-maxYears, 0, 0)) || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("time %q: %w", text, ErrSyntax)
	}
	return t, nil
}

func parse(text string, now time.Time) (time.Time, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	if t, ok := parseStamp(text, now.Location()); ok {
		return t, true
	}
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '.' })
	if len(fields) > 1 && fields[0] == "last" {
		fields = fields[1:]
		if _, ok := weekdays[fields[0]]; !ok {
			return time.Time{}, false
		}
	}
	switch len(fields) {
	case 0:
		return time.Time{}, false
	case 1:
		if t, ok := parseWord(fields[0], now); ok {
			return t, true
		}
	case 2:
		if day, ok := parseDay(fields[0], now); ok {
			return parseHour(fields[1], day)
		}
	}
	return parseAgo(fields, now)
}

// parseStamp reads a date and an hour as RFC 3339 joins them, in lower case.
func parseStamp(text string, loc *time.Location) (time.Time, bool) {
	if len(text) < len("2006-01-02t15:04") || text[10] != 't' {
		return time.Time{}, false
	}
	text = strings.ToUpper(text)
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04Z07:00",
		"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.ParseInLocation(layout, text, loc); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseWord reads a time of one word, but for those that say how long ago it was.
func parseWord(word string, now time.Time) (time.Time, bool) {
	switch word {
	case "now":
		return now, true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	}
	if day, ok := parseDay(word, now); ok {
		return day, true
	}
	t, ok := parseHour(word, now)
	if ok && t.After(now) {
		t, ok = parseHour(word, now.AddDate(0, 0, -1))
	}
	return t, ok
}

var weekdays = map[string]time.Weekday{
	"sunday": time.Sunday, "monday": time.Monday, "tuesday": time.Tuesday, "wednesday": time.Wednesday,
	"thursday": time.Thursday, "friday": time.Friday, "saturday": time.Saturday,
}

// parseDay returns when a day begins.
func parseDay(word string, now time.Time) (time.Time, bool) {
	back := 0
	switch weekday, ok := weekdays[word]; {
	case ok:
		back = (int(now.Weekday()-weekday)+6)%7 + 1
	case word == "yesterday":
		back = 1
	case word != "today":
		t, err := time.ParseInLocation(time.DateOnly, word, now.Location())
		return t, err == nil
	}
	y, m, d := now.Date()
	return time.Date(y, m, d-back, 0, 0, 0, 0, now.Location()), true
}

// parseHour returns an hour of a day.
func parseHour(word string, day time.Time) (time.Time, bool) {
	switch word {
	case "noon":
		word = "12:00"
	case "midnight":
		word = "00:00"
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(layout, word); err == nil {
			y, m, d := day.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, day.Location()), true
		}
	}
	return time.Time{}, false
}

// A unit of time. A day, a month and a year are as long as the calendar has them.
type unit struct {
	short, name  string
	length       time.Duration // of one, at least
	days, months int           // by the calendar; both 0: length is exact
}

var units = []unit{
	{"s", "second", time.Second, 0, 0},
	{"sec", "sec", time.Second, 0, 0},
	{"m", "minute", time.Minute, 0, 0},
	{"min", "min", time.Minute, 0, 0},
	{"h", "hour", time.Hour, 0, 0},
	{"d", "day", day, 1, 0},
	{"w", "week", 7 * day, 7, 0},
	{"mo", "month", 28 * day, 0, 1},
	{"y", "year", 365 * day, 0, 12},
}

func (u *unit) is(name string) bool {
	return name == u.short || strings.TrimSuffix(name, "s") == u.name
}

const day = 24 * time.Hour

// parseAgo reads how long ago it was: numbers, each with a unit.
func parseAgo(fields []string, now time.Time) (time.Time, bool) {
	if n := len(fields); n > 1 && fields[n-1] == "ago" {
		fields = fields[:n-1]
	}
	text := strings.Join(fields, " ")
	if rest, ok := strings.CutPrefix(text, "an "); ok {
		text = "1 " + rest
	} else if rest, ok := strings.CutPrefix(text, "a "); ok {
		text = "1 " + rest
	}
	if text == "" {
		return time.Time{}, false
	}
	t := now
	for text != "" {
		n, name, rest, ok := cutAmount(text)
		i := slices.IndexFunc(units, func(u unit) bool { return u.is(name) })
		if !ok || i < 0 || n > int(maxYears*366*day/units[i].length) {
			return time.Time{}, false
		}
		if u := units[i]; u.days == 0 && u.months == 0 {
			t = t.Add(-time.Duration(n) * u.length)
		} else {
			t = t.AddDate(0, -n*u.months, -n*u.days)
		}
		text = rest
	}
	return t, true
}

// cutAmount cuts a number and the letters of its unit off a text.
func cutAmount(text string) (n int, name, rest string, ok bool) {
	digits := strings.TrimLeft(text, "0123456789")
	n, err := strconv.Atoi(text[:len(text)-len(digits)])
	letters := strings.TrimLeft(digits, " ")
	rest = strings.TrimLeft(letters, "abcdefghijklmnopqrstuvwxyz")
	name = letters[:len(letters)-len(rest)]
	return n, name, strings.TrimLeft(rest, " "), err == nil && name != ""
}

// ParseLength reads how long something takes: a number, maybe with a fraction, and a unit of
// those that are always as long, of a day 24 hours and of a year 365 days.
func ParseLength(text string) (time.Duration, error) {
	name := strings.TrimLeft(text, "0123456789.")
	n, err := strconv.ParseFloat(text[:len(text)-len(name)], 64)
	name = strings.TrimLeft(name, " ")
	i := slices.IndexFunc(units, func(u unit) bool { return u.is(name) })
	if err != nil || i < 0 || units[i].months == 1 || !(n > 0) ||
		n*float64(units[i].length) >= float64(maxYears*365*day) {
		return 0, errors.New("want a number with s, m, h, d, w or y behind it")
	}
	return time.Duration(n * float64(units[i].length)), nil
}

// Ago says how long before now a time was: "3 min ago", "2 weeks ago"; "just now" of what
// was within the last second, or is to come.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < time.Second {
		return "just now"
	}
	return Length(d) + " ago"
}

// Length says how long something takes, in the largest unit of which it is two or more,
// of minutes one or more, else in seconds: "40 s", "90 min", "47 h", "5 days", "3 weeks".
func Length(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d < 14*day:
		return words.Count(int(d/day), "day")
	case d < 61*day:
		return words.Count(int(d/(7*day)), "week")
	case d < 2*365*day:
		return words.Count(int(d/(30*day+10*time.Hour)), "month")
	}
	return words.Count(int(d/(365*day+6*time.Hour)), "year")
}
