package main

import (
	"regexp"
	"strconv"
	"strings"

	"quotad/quota"
)

// units writes an amount with its noun: "1 unit", "4,120 units".
func units(n int64) string { return quota.Units(n).Text() }

// parseUnits reads a whole number as people write it: "1200", "+1,200", "-1_200".
func parseUnits(text string) (n int64, ok bool) {
	if !writtenNumber.MatchString(text) {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.NewReplacer(",", "", "_", "", "+", "").Replace(text), 10, 64)
	return n, err == nil
}

var writtenNumber = regexp.MustCompile(`^[+-]?([0-9]+|[0-9]{1,3}([,_][0-9]{3})+)$`)
