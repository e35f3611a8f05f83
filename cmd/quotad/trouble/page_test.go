package trouble

import (
	"os"
	"regexp"
	"testing"
)

// The page has a row for each kind, in their order.
func TestTableOfKinds(t *testing.T) {
	text, err := os.ReadFile("../OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(\\w+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllSubmatch(regexp.MustCompile("(?s)<!-- troubles.*<!-- end").Find(text), -1)
	if len(rows) != len(Kinds) {
		t.Fatalf("the table has %d rows, and there are %d kinds", len(rows), len(Kinds))
	}
	for i, row := range rows {
		if Kind(row[1]) != Kinds[i] {
			t.Errorf("row %d is of %s, want %s", i+1, row[1], Kinds[i])
		}
	}
}
