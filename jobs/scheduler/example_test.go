package scheduler_test

import (
	"fmt"
	"time"

	"quotad/jobs/scheduler"
)

// At half past two in the morning, also when spring swallows that time: then as the clock jumps.
func ExampleParseCron() {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		panic(err)
	}
	schedule, err := scheduler.ParseCron("30 2 * * *", zone)
	if err != nil {
		panic(err)
	}
	at := time.Date(2026, 3, 28, 0, 0, 0, 0, zone)
	for range 3 {
		at = schedule.Next(at)
		fmt.Println(at.In(zone).Format(time.DateTime))
	}
	// Output:
	// 2026-03-28 02:30:00
	// 2026-03-29 03:00:00
	// 2026-03-30 02:30:00
}
