package regions_test

import (
	"fmt"
	"time"

	"quotad/regions"
)

// The budget of a run ends at DE: the next run begins there, and no region is left out.
func ExampleRing_Advance() {
	ring := regions.Ring{"US", "GB", "DE", "FR"}
	served := map[regions.Region]bool{"US": true, "GB": true}
	cursor := ring.Advance(func(r regions.Region) bool { return served[r] })
	fmt.Println(cursor, ring.From(cursor))
	// Output: DE [DE FR US GB]
}

// Eight regions within half an hour: one each 3 minutes and 45 seconds.
func ExampleEven() {
	slot := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	stagger := regions.Even(30*time.Minute, 8)
	fmt.Println(stagger, regions.Start(slot, stagger, 7).Format(time.TimeOnly))
	// Output: 3m45s 09:26:15
}
