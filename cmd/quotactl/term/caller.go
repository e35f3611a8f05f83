package term

import (
	"os/user"
	"strings"
)

// Caller writes a caller as the log names it. For "@" and the uid of a user it writes the
// user's name.
func (v View) Caller(by string) string {
	uid, isUser := strings.CutPrefix(by, "@")
	if isUser && uid != "" && v.User != nil {
		by = "@" + v.User(uid)
	}
	return v.Clean(by)
}

// UserNames returns a function that returns the name of a user. It asks this host's user
// database once for each uid. An unknown user keeps the uid.
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
