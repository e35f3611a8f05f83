package main

import (
	"testing"
	"time"
)

// A time of day is the last one in the past and the next one in the future, across midnight and
// on days of 23 and of 25 hours.
func TestInstants(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	howe := zone(t, "Australia/Lord_Howe") // where clocks are set by half an hour
	in := func(zone *time.Location, text string) time.Time {
		at, err := time.ParseInLocation("2006-01-02 15:04:05", text, zone)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	summer, winter := "2026-03-29", "2026-10-25" // 02:00 becomes 03:00; 03:00 becomes 02:00
	first := time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC)
	for _, row := range []struct {
		name, text string
		now        time.Time
		last, next string // in the zone of now; with a zone where a time stands twice
	}{
		{"a time of today", "09:00", in(berlin, "2026-03-14 11:26:53"), "2026-03-14 09:00:00 CET", "2026-03-15 09:00:00 CET"},
		{"a time that is to come", "22:00", in(berlin, "2026-03-14 11:26:53"), "2026-03-13 22:00:00 CET", "2026-03-14 22:00:00 CET"},
		{"this very instant", "11:26", in(berlin, "2026-03-14 11:26:00"), "2026-03-14 11:26:00 CET", "2026-03-15 11:26:00 CET"},
		{"midnight", "00:00", in(berlin, "2026-03-14 23:59:59"), "2026-03-14 00:00:00 CET", "2026-03-15 00:00:00 CET"},
		{"after midnight", "23:59", in(berlin, "2026-03-14 00:00:30"), "2026-03-13 23:59:00 CET", "2026-03-14 23:59:00 CET"},
		{"a new year", "09:00", in(berlin, "2026-01-01 08:00:00"), "2025-12-31 09:00:00 CET", "2026-01-01 09:00:00 CET"},
		{"one digit", "9:00", in(berlin, "2026-03-14 11:26:53"), "2026-03-14 09:00:00 CET", "2026-03-15 09:00:00 CET"},
		{"UTC", "09:00", in(time.UTC, "2026-03-14 11:26:53"), "2026-03-14 09:00:00 UTC", "2026-03-15 09:00:00 UTC"},
		{"a day of 23 hours", "09:00", in(berlin, summer+" 01:00:00"), "2026-03-28 09:00:00 CET", "2026-03-29 09:00:00 CEST"},
		{"a time that is left out", "02:30", in(berlin, summer+" 01:59:00"), "2026-03-28 02:30:00 CET", "2026-03-29 03:30:00 CEST"},
		{"left out, afterwards", "02:30", in(berlin, summer+" 12:00:00"), "2026-03-29 03:30:00 CEST", "2026-03-30 02:30:00 CEST"},
		{"a day of 25 hours", "09:00", in(berlin, winter+" 01:00:00"), "2026-10-24 09:00:00 CEST", "2026-10-25 09:00:00 CET"},
		{"a time that comes twice", "02:30", in(berlin, winter+" 01:00:00"), "2026-10-24 02:30:00 CEST", "2026-10-25 02:30:00 CEST"},
		{"between the two", "02:30", first.Add(5 * time.Minute).In(berlin), "2026-10-25 02:30:00 CEST", "2026-10-25 02:30:00 CET"},
		{"after both", "02:30", in(berlin, winter+" 12:00:00"), "2026-10-25 02:30:00 CET", "2026-10-26 02:30:00 CET"},
		{"half an hour twice", "01:45", in(howe, "2026-04-05 01:00:00"), "2026-04-04 01:45:00 +11", "2026-04-05 01:45:00 +11"},
		{"half an hour left out", "02:15", in(howe, "2026-10-04 01:00:00"), "2026-10-03 02:15:00 +1030", "2026-10-04 02:45:00 +11"},
		{"a length", "90m", in(berlin, "2026-03-14 11:00:00"), "2026-03-14 09:30:00 CET", "2026-03-14 12:30:00 CET"},
		{"a day is 24 hours", "1d", in(berlin, summer+" 12:00:00"), "2026-03-28 11:00:00 CET", "2026-03-30 12:00:00 CEST"},
		{"an instant", "2026-03-14T09:00:00Z", in(time.UTC, "2026-03-14 11:26:53"), "2026-03-14 09:00:00 UTC", "2026-03-14 09:00:00 UTC"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for past, want := range map[bool]string{true: row.last, false: row.next} {
				at, ok := parseInstant(row.text, row.now, past)
				if got := at.In(row.now.Location()).Format("2006-01-02 15:04:05 MST"); !ok || got != want {
					t.Errorf("%s at %v, past %v: got %s, want %s", row.text, row.now, past, got, want)
				}
			}
		})
	}
	for _, text := range []string{"", "yesterday", "24:00", "09:60", "9", "09", "0s", "-1h", "5", "09:00:00Z", "2026-03-14"} {
		if at, ok := parseInstant(text, time.Now(), true); ok {
			t.Errorf("%q is taken for %v", text, at)
		}
	}
}

// There is a last and a next time of each hour of the day, on either side of now, all year round.
func TestEachHourHasItsTime(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago"} {
		zone := zone(t, name)
		for now := time.Date(2026, 1, 1, 0, 0, 0, 0, zone); now.Year() < 2027; now = now.Add(97 * time.Minute) {
			for hour := range 24 {
				clock := time.Date(0, 1, 1, hour, 30, 0, 0, time.UTC)
				last, next := atClock(clock, now, true), atClock(clock, now, false)
				if last.After(now) || !next.After(now) || next.Sub(last) > 26*time.Hour || next.Sub(last) < 30*time.Minute {
					t.Fatalf("%s, %d:30 at %v: the last is %v, the next %v", name, hour, now, last, next)
				}
			}
		}
	}
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}
