package regions_test

import (
	"fmt"

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
