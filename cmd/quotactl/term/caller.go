package term

import (
	"os/user"
	"strings"
)

// Caller writes who called, as the log names him: a job, or "@" and the uid of a
// user, for which people read his name.
func (v View) Caller(by string) string {
	uid, isUser := strings.CutPrefix(by, "@")
	if isUser && uid != "" && v.User != nil {
		by = "@" + v.User(uid)
	}
	return v.Clean(by)
}

// UserNames returns a function that names users as this host's user database does,
// and asks it once for each; who is not in it keeps his uid.
func UserNames() func(uid string) string {
	known := map[string]string{}
	return func(uid string) string {
		if name, asked := known[uid]; asked {
			return name
		}
		known[uid] = uid
		if u, err := user.LookupId(uid); err == nil {
			known[uid] = u.Username
		}
		return known[uid]
	}
}
