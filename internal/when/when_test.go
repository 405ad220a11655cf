package when

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// A Wednesday.
var (
	berlin = time.FixedZone("", 2*60*60)
	now    = time.Date(2026, 5, 13, 16, 30, 15, 500, berlin)
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"now":                  "2026-05-13 16:30:15 +0200",
		"2h":                   "2026-05-13 14:30:15 +0200",
		"2 hours ago":          "2026-05-13 14:30:15 +0200",
		"2.hours.ago":          "2026-05-13 14:30:15 +0200",
		"2 hours":              "2026-05-13 14:30:15 +0200",
		"an hour ago":          "2026-05-13 15:30:15 +0200",
		"a day ago":            "2026-05-12 16:30:15 +0200",
		"1h30m":                "2026-05-13 15:00:15 +0200",
		"1 hour 30 min ago":    "2026-05-13 15:00:15 +0200",
		"90s":                  "2026-05-13 16:28:45 +0200",
		"45 secs ago":          "2026-05-13 16:29:30 +0200",
		"3d ago":               "2026-05-10 16:30:15 +0200",
		"2w":                   "2026-04-29 16:30:15 +0200",
		"1 week ago":           "2026-05-06 16:30:15 +0200",
		"2 months ago":         "2026-03-13 16:30:15 +0200",
		"3mo":                  "2026-02-13 16:30:15 +0200",
		"1y":                   "2025-05-13 16:30:15 +0200",
		"0s":                   "2026-05-13 16:30:15 +0200",
		"yesterday":            "2026-05-12 16:30:15 +0200",
		" Yesterday ":          "2026-05-12 16:30:15 +0200",
		"yesterday 9:05":       "2026-05-12 09:05:00 +0200",
		"yesterday noon":       "2026-05-12 12:00:00 +0200",
		"today":                "2026-05-13 00:00:00 +0200",
		"today 23:00":          "2026-05-13 23:00:00 +0200", // which is to come
		"14:00":                "2026-05-13 14:00:00 +0200",
		"16:30:15":             "2026-05-13 16:30:15 +0200",
		"17:00":                "2026-05-12 17:00:00 +0200", // today's is to come
		"noon":                 "2026-05-13 12:00:00 +0200",
		"midnight":             "2026-05-13 00:00:00 +0200",
		"monday":               "2026-05-11 00:00:00 +0200",
		"last friday":          "2026-05-08 00:00:00 +0200",
		"last friday 10:00":    "2026-05-08 10:00:00 +0200",
		"wednesday":            "2026-05-06 00:00:00 +0200", // not today
		"tuesday 10:00":        "2026-05-12 10:00:00 +0200",
		"2026-05-01":           "2026-05-01 00:00:00 +0200",
		"2026-05-01 14:00":     "2026-05-01 14:00:00 +0200",
		"2026-05-01 14:00:09":  "2026-05-01 14:00:09 +0200",
		"2026-05-01T14:00":     "2026-05-01 14:00:00 +0200",
		"2026-05-01t14:00:09":  "2026-05-01 14:00:09 +0200",
		"2026-05-01T14:00:00Z": "2026-05-01 14:00:00 +0000",
		"2026-05-01T14:00Z":    "2026-05-01 14:00:00 +0000",

		"2026-05-01T14:00:00-05:00": "2026-05-01 14:00:00 -0500",
		"2026-05-01T14:00:00.25Z":   "2026-05-01 14:00:00 +0000",
	} {
		got, err := Parse(text, now)
		if have := got.Format("2006-01-02 15:04:05 -0700"); err != nil || have != want {
			t.Errorf("Parse(%q) = %s, %v; want %s", text, have, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", " ", ".", "ago", "h", "2", "2x", "2h3", "-2h", "hours ago", "two hours ago",
		"2h yesterday", "last", "last year", "last 2026-05-01", "2026-13-01", "2026-02-30", "26-05-01", "25:00",
		"14:60", "today yesterday", "2026-05-01 2h", "now 14:00", "yesterday 14:00 ago", "201y", "9999999999999999999s",
		"6400000000s", "106000000m", "500000mo", "100000w", "0001-01-01", "2026-05-01T", "2026-05-01Tnoon", "1.5h",
		"tomorrow",
		"2 hourss", "h2", "2\u00a0h"} {
		if got, err := Parse(text, now); !errors.Is(err, ErrSyntax) || !got.IsZero() {
			t.Errorf("Parse(%q) = %v, %v; want ErrSyntax", text, got, err)
		}
	}
}

// An hour of a day is that of the clock on the wall, also on a day of 23 hours.
func TestParseSummerTime(t *testing.T) {
	loc, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, loc)
	for text, want := range map[string]string{
		"yesterday":        "2026-03-28 12:00:00 +0100",
		"1 day ago":        "2026-03-28 12:00:00 +0100",
		"24h":              "2026-03-28 11:00:00 +0100",
		"today":            "2026-03-29 00:00:00 +0100",
		"10:00":            "2026-03-29 10:00:00 +0200",
		"2026-03-29 01:00": "2026-03-29 01:00:00 +0100",
	} {
		got, err := Parse(text, now)
		if have := got.Format("2006-01-02 15:04:05 -0700"); err != nil || have != want {
			t.Errorf("Parse(%q) = %s, %v; want %s", text, have, err, want)
		}
	}
}

func TestAgo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Hour: "just now", 0: "just now", 999 * time.Millisecond: "just now", time.Second: "1 s ago",
		59 * time.Second: "59 s ago", time.Minute: "1 min ago", 119 * time.Minute: "119 min ago",
		2 * time.Hour:  "2 h ago",
		47 * time.Hour: "47 h ago", 2 * day: "2 days ago", 13 * day: "13 days ago", 14 * day: "2 weeks ago",
		60 * day: "8 weeks ago", 61 * day: "2 months ago", 729 * day: "23 months ago", 731 * day: "2 years ago",
		10 * 365 * day: "9 years ago",
	} {
		if got := Ago(now.Add(-d), now); got != want {
			t.Errorf("Ago of %v = %q, want %q", d, got, want)
		}
	}
}

// A time is read as it is written, and what Ago says of it is read as no longer ago than it
// is; months differ by three days.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"2 hours ago", "yesterday 14:00", "2026-05-01T14:00:00Z", "1h30m", "last friday",
		"9223372036854775807s", "105408000m", "2026-05-01t", "t", "an ", "a", "1 . ago"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text, now)
		if err != nil {
			if !errors.Is(err, ErrSyntax) || !got.IsZero() {
				t.Errorf("Parse(%q) = %v, %v", text, got, err)
			}
			return
		}
		again, err := Parse(got.Format(time.RFC3339), now)
		if err != nil || !again.Equal(got.Truncate(time.Second)) {
			t.Errorf("Parse(%q) = %v, which is read as %v, %v", text, got, again, err)
		}
		said := strings.TrimPrefix(Ago(got, now), "just ")
		ago, err := Parse(said, now)
		if err != nil || ago.Before(got.AddDate(0, 0, -3)) && ago.Before(now) {
			t.Errorf("Parse(%q) = %v, of which Ago says %q, which is read as %v, %v", text, got, said, ago, err)
		}
	})
}

func TestParseLength(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "12h": 12 * time.Hour, "1.5h": 90 * time.Minute, "30d": 30 * day, "2w": 14 * day,
		"1y": 365 * day, "2 days": 2 * day, "1 hour": time.Hour, "10min": 10 * time.Minute,
	} {
		if got, err := ParseLength(text); err != nil || got != want {
			t.Errorf("ParseLength(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "h", "5", "-1h", "0d", "1mo", "2 months", "300y", "1h30m", "yesterday",
		"1..5h", "h2"} {
		if got, err := ParseLength(text); err == nil {
			t.Errorf("ParseLength(%q) = %v, want an error", text, got)
		}
	}
}
