package quota

import "strconv"

// Text writes an amount for people, with its noun: "1 unit", "4,120 units".
func (u Units) Text() string { return Count(int64(u), "unit", "units") }

// Count writes how many there are of something that people read, in the singular
// or the plural: "1 call", "4,120 calls".
func Count[N ~int | ~int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Thousands(n) + " " + many
}

// Thousands writes a whole number with a comma between groups of three digits.
func Thousands[N ~int | ~int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	first := 1 // the first place where a comma may stand
	if digits[0] == '-' {
		first = 2
	}
	for i := len(digits) - 3; i >= first; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
