package jobs_test

import (
	"fmt"
	"log"
	"time"

	"quotad/jobs"
)

// The slots of a period are at the same times on each host and after each restart. A phase moves them.
func ExampleNewEvery() {
	halfHour, err := jobs.NewEvery(30*time.Minute, 0)
	if err != nil {
		log.Fatal(err)
	}
	later, err := jobs.NewEvery(30*time.Minute, 10*time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	started := time.Date(2026, 11, 23, 9, 17, 42, 0, time.UTC)
	fmt.Println(halfHour.Next(started).Format(time.TimeOnly), later.Next(started).Format(time.TimeOnly))
	count, first := jobs.CountSlots(halfHour, started, started.Add(24*time.Hour), 100)
	fmt.Println(count, "slots in 24 hours, the first at", first.Format(time.TimeOnly))
	// Output:
	// 09:30:00 09:40:00
	// 48 slots in 24 hours, the first at 09:30:00
}
