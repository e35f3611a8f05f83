package config

import (
	"os"
	"strings"
	"testing"
)

// Where the unit says whom passes run as, they do so by default, and never as quotad, whose
// capabilities they would have.
func TestPassesRunAsWhomTheUnitNames(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can run passes as another user")
	}
	for _, row := range []struct{ unit, table, user, wrong string }{
		{"nobody", "", "nobody", ""},
		{"", "", "", ""},
		{"nobody", `user = "daemon"`, "daemon", ""},
		{"nobody", `user = ""`, "", "would have its capabilities"},
		{"nobody", `user = "root"`, "", "would have its capabilities"},
		{"no-such-user", "", "", "$QUOTAD_PASSES_USER: no user \"no-such-user\" on this host"},
	} {
		dir, got, wrong := t.TempDir(), "", ""
		program(t, dir, "fetch")
		text := strings.Replace(good, "[ledger]", "[passes]\n"+row.table+"\n[ledger]", 1)
		c, err := Load(write(t, dir, "config.toml", text), Host{StateDirectory: "/state", Programs: dir, PassesUser: row.unit})
		if err != nil {
			wrong = err.Error()
		} else if c.Passes.User != nil {
			got = c.Passes.User.Name
		}
		if got != row.user || (err != nil) != (row.wrong != "") || !strings.Contains(wrong, row.wrong) {
			t.Errorf("%+v: passes run as %q, %s", row, got, wrong)
		}
	}
}
