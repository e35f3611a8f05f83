package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
	"quotad/quota/api"
	"quotad/quota/server"
)

// refuse lets the frontend answer every caller that quotad cannot serve, and why, until the
// next attempt after delay. It reports ready to the service manager, since callers are answered.
// It logs the reason if loud.
func (s *supervisor) refuse(why error, delay time.Duration, loud bool) error {
	until := time.Now().Add(delay)
	c := server.Config{
		Version: api.BuildVersion(), JobsUID: s.jobsUID(), Routes: []server.Route{server.ReloadRoute(s.retry)},
	}
	if s.config != nil {
		c.AdminGroup = s.config.Access.AdminGroup
	}
	refusing, err := server.Refusing(server.NotServing{Problem: problemOf(why), Until: until}, c)
	if err != nil {
		return err
	}
	s.frontend.PassTo(refusing)
	s.accept()
	if loud {
		if errors.As(why, new(config.Errors)) {
			fail(s.stderr, why) // one error a line, where editors find the file and the line
		}
		addText(s.log.Error(), "cure", cureOf(why)).Msgf("cannot serve: %s; callers are refused, and quotad tries again by itself", firstLine(why.Error()))
	}
	s.notifySystemd(fmt.Sprintf("READY=1\nSTATUS=cannot serve: %s; next try %s", firstLine(why.Error()), until.Format(time.TimeOnly)))
	return nil
}

// problemOf returns the answer to callers.
func problemOf(why error) *api.Problem {
	reason := api.NotServing
	if isConfig(why) {
		reason = api.BadConfiguration
	}
	p := api.NewProblem(reason, "quotad cannot serve: %s", firstLine(why.Error()))
	again := "quotad tries again by itself; quotactl reload makes it try at once"
	p.Hint = strings.TrimPrefix(cmp.Or(cureOf(why), p.Hint)+"; "+again, "; ")
	return p
}

// cures has the cures of errors of the system. Other errors name their cure themselves.
var cures = [...]struct {
	err  error
	cure string
}{
	{syscall.EADDRINUSE, "stop what listens there (ss -ltnp shows it), or change the address in the configuration"},
	{syscall.EADDRNOTAVAIL, "change the address in the configuration to one that this host has"},
	{syscall.ENOSPC, "make room on the disk that holds it"},
	{syscall.EDQUOT, "make room within the disk quota of quotad's user"},
	{syscall.EROFS, "mount the file system for writing; under systemd the state is in StateDirectory= or ReadWritePaths="},
	{syscall.EIO, "the disk fails: read the kernel's log (journalctl -k)"},
}

// cureOf returns what can be done about an error; "" if nothing is known.
func cureOf(why error) string {
	if isConfig(why) {
		return ""
	}
	var of *fs.PathError
	if errors.Is(why, fs.ErrPermission) && errors.As(why, &of) {
		return fmt.Sprintf("give it to the user that quotad runs as: chown %s: %s", process.NameOf(os.Geteuid()), of.Path)
	}
	for _, c := range cures {
		if errors.Is(why, c.err) {
			return c.cure
		}
	}
	return ""
}

// pause waits until the next attempt: for delay, or until an operator asks for it. Meanwhile it
// reports to systemd that quotad is alive, if callers are answered. An attempt that hangs does
// not, so the watchdog ends it.
func (s *supervisor) pause(delay time.Duration) (asked retry, err error) {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	var beat <-chan time.Time
	if every := s.systemd.watchdog / beats; every > 0 {
		s.beat(every)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		beat = ticker.C
	}
	for {
		select {
		case <-beat:
			s.beat(s.systemd.watchdog / beats)
		case <-timer.C:
			return nil, nil
		case <-s.hangups:
			return make(retry, 1), nil
		case r := <-s.retries:
			return r, nil
		case <-s.ask.Done():
			s.notifySystemd("STOPPING=1\nSTATUS=stopping")
			return nil, nil
		case err := <-s.failed:
			return nil, err
		}
	}
}

func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if more {
		return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
	}
	return first
}
