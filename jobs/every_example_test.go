package jobs_test

import (
	"fmt"
	"log"
	"time"

	"quotad/jobs"
)

// The slots of a period are at the same times on each host and after each restart.
func ExampleNewEvery() {
	halfHour, err := jobs.NewEvery(30 * time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	started := time.Date(2026, 11, 23, 9, 17, 42, 0, time.UTC)
	fmt.Println(halfHour.Next(started).Format(time.TimeOnly))
	// Output:
	// 09:30:00
}
