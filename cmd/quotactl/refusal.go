package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"quotad/quota"
	"quotad/quota/api"
)

// explain turns an error of the API client's into a failure with its exit code
// and the cure.
func (c *cli) explain(err error) error {
	var p *api.Problem
	switch {
	case errors.Is(err, api.ErrUnreachable):
		return &failure{code: exitUnreachable, err: err, hint: c.unreachableHint(err)}
	case errors.Is(err, api.ErrLedgerUnavailable):
		return &failure{code: exitError, err: err, hint: "nobody can tell what is left: quotactl status tells how the ledger is"}
	case errors.As(err, &p):
		return &failure{code: exitCodeOf(p.Reason), err: err, hint: cmp.Or(api.Hint(err), skewHint(err))}
	default:
		return &failure{code: exitError, err: err, hint: skewHint(err)}
	}
}

// inDoubt says what to do where a request may have been carried out although no
// answer tells of it.
func inDoubt(err error, advice string) error {
	var f *failure
	if errors.As(err, &f) && (errors.Is(err, quota.ErrOutcomeUnknown) || errors.Is(err, api.ErrLedgerUnavailable)) {
		f.hint = advice
	}
	return err
}

// exitCodeOf is the exit code that a reason stands for. A cost that can never
// fit is not "denied": 75 tells a script to come back later.
func exitCodeOf(reason quota.Reason) int {
	switch reason {
	case quota.LimitExceeded, quota.RunCapExceeded:
		return exitDenied
	case quota.UnknownCredential, quota.UnknownOperation, quota.UnknownGrant, api.NotFound:
		return exitNotFound
	case quota.BadRequest:
		return exitUsage
	default:
		return exitError
	}
}

func (c *cli) unreachableHint(err error) string {
	path := c.socketPath()
	if !errors.Is(err, fs.ErrPermission) {
		return api.Hint(err)
	}
	gid, ok := groupOf(path)
	switch {
	case !ok:
		return api.Hint(err)
	case gid == "0":
		return path + " is for root alone: ask as root, or have quotad run as a user of its own"
	}
	group := gid
	if g, err := user.LookupGroupId(gid); err == nil {
		group = g.Name
	}
	return fmt.Sprintf("%s is for members of group %s: usermod -aG %s %s, then log in again", path, group, group, userName())
}

// groupOf returns the group of a file or, where that is not to be seen, of the
// directory that hides it.
func groupOf(path string) (gid string, ok bool) {
	info, err := os.Stat(path)
	for errors.Is(err, fs.ErrPermission) && filepath.Dir(path) != path {
		path = filepath.Dir(path)
		info, err = os.Stat(path)
	}
	if err != nil {
		return "", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", false
	}
	return strconv.Itoa(int(stat.Gid)), true
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "USER"
}

// refusal turns a decision that is not a grant into a failure.
func (c *cli) refusal(d api.Decision) error {
	f := &failure{code: exitCodeOf(quota.Reason(d.Reason)), err: errors.New(describe(d)), hint: d.Hint}
	switch quota.Reason(d.Reason) {
	case quota.RunCapExceeded:
		f.err = fmt.Errorf("denied: %s", d.Detail)
	case quota.LimitExceeded:
		f.err = fmt.Errorf("denied: %s asked of limit %s, %s left", units(d.Requested), d.Limit, quota.Thousands(d.Remaining))
		if d.RetryAt != nil {
			f.hint = "this request fits " + c.view().When(*d.RetryAt)
		}
	}
	return f
}

// describe is what the daemon says about a refusal, behind its reason.
func describe(d api.Decision) string {
	if d.Detail == "" {
		return d.Reason
	}
	return d.Reason + ": " + d.Detail
}
