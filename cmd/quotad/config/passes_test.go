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
	for _, row := range []struct{ name, unit, table, user, wrong string }{
		{"by default", "nobody", "", "nobody", ""},
		{"without a unit", "", "", "", ""},
		{"another one", "nobody", `user = "daemon"`, "daemon", ""},
		{"another key", "nobody", `drain = "2s"`, "nobody", ""},
		{"none", "nobody", `user = ""`, "", "would have its capabilities"},
		{"quotad's own", "nobody", `user = "root"`, "", "would have its capabilities"},
		{"not one of this host", "no-such-user", "", "", "$QUOTAD_PASSES_USER: no user \"no-such-user\" on this host"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			program(t, dir, "fetch")
			text := strings.Replace(good, "[ledger]", "[passes]\n"+row.table+"\n[ledger]", 1)
			c, err := Load(write(t, dir, "config.toml", text), Host{StateDirectory: "/state", Programs: dir, PassesUser: row.unit})
			if row.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), row.wrong) || strings.Count(err.Error(), "\n") > 0 {
					t.Errorf("got %v, want one error with %q", err, row.wrong)
				}
				return
			}
			must(t, err)
			got := ""
			if c.Passes.User != nil {
				got = c.Passes.User.Name
			}
			if got != row.user {
				t.Errorf("passes run as %q, want %q", got, row.user)
			}
		})
	}
}
