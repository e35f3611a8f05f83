package main

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late the kernel may wake a thread of quotad that sleeps, as prctl(PR_SET_TIMERSLACK) says. By
// default it is 50 µs. Go's scheduler has threads that sleep for 3 and for 20 µs to look for work, which is seldom
// there: each time they wake, they take a CPU from Redis or from a caller, and an acquire takes a fifth longer.
const timerSlack = 500 * time.Microsecond

// slackened is in the environment of a quotad that has begun again.
const slackened = "QUOTAD_TIMER_SLACK=set"

// slackenTimers begins this program again with timerSlack: only so does the thread have it that Go starts before main.
// If the kernel does not let it, all is as before. What quotad starts has the slack, too.
func slackenTimers() {
	name, value, _ := strings.Cut(slackened, "=")
	if os.Getenv(name) == value {
		os.Unsetenv(name)
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack.Nanoseconds()), 0, 0, 0) != nil {
		return
	}
	if program, err := os.Executable(); err == nil {
		_ = syscall.Exec(program, os.Args, append(os.Environ(), slackened))
	}
}
