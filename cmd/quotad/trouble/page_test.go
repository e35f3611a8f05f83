package trouble

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the table of OPERATING.md")

// The page has the table of kinds.
func TestTableOfKinds(t *testing.T) {
	const page = "../OPERATING.md"
	table := "| kind | it is one when | grave: calls or runs are lost now, or within the hour |\n|---|---|---|\n"
	for _, row := range Kinds {
		table += fmt.Sprintf("| `%s` | %s | %s |\n", row.Kind, row.When, row.Grave)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := bytes.Cut(text, []byte("<!-- troubles -->\n"))
	_, after, ends := bytes.Cut(rest, []byte("<!-- end -->"))
	if !found || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	want := fmt.Appendf(nil, "%s<!-- troubles -->\n%s<!-- end -->%s", before, table, after)
	if !bytes.Equal(text, want) && *update {
		err = os.WriteFile(page, want, 0o644)
	} else if !bytes.Equal(text, want) {
		err = fmt.Errorf("%s is not what Kinds says: go test ./cmd/quotad/trouble -update", page)
	}
	if err != nil {
		t.Error(err)
	}
}
