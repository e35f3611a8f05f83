package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"quotad/jobs/process"
	"quotad/quota/api"
)

// A person is a user as a process has it.
type person struct {
	uid, gid int
	groups   []int // beside gid
}

// account returns a user that every Debian system has.
func account(t *testing.T, name string) person {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		t.Skipf("needs the user %s: %v", name, err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	must(t, errors.Join(err1, err2))
	return person{uid: uid, gid: gid}
}

func (p person) in(group person) person {
	p.groups = append(p.groups, group.gid)
	return p
}

// dial connects as the person: for the kernel that is who the thread is that connects.
func (p person) dial(socket string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err = p.become(); err == nil {
			conn, err = net.Dial("unix", socket)
		}
	}()
	<-done
	return conn, err
}

// become changes the thread alone, where package syscall would change them all.
func (p person) become() error {
	groups := []uint32{uint32(p.gid)}
	for _, g := range p.groups {
		groups = append(groups, uint32(g))
	}
	gid, uid := uintptr(p.gid), uintptr(p.uid)
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return errno
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return errno
	}
	return nil
}

// A caller is somebody who asks the daemon, and what they are to be allowed.
type caller struct {
	name   string
	person person
	token  string
	may    string // the classes of access
}

// ask sends a request as the caller and returns the answer's status.
func (c caller) ask(t *testing.T, socket, method, path, form string) int {
	t.Helper()
	conn, err := c.person.dial(socket)
	must(t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(hangTimeout))
	if method == http.MethodGet {
		form = ""
	}
	request, err := http.NewRequest(method, "http://quotad"+path, strings.NewReader(form))
	must(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	must(t, request.Write(conn))
	answer, err := http.ReadResponse(bufio.NewReader(conn), request)
	if err != nil {
		t.Fatalf("%s: %s %s: %v", c.name, method, path, err)
	}
	defer answer.Body.Close()
	io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}

// Its job, of the daemon's own user, writes down what of the daemon it can open.
const rolesConfig = `
passes.drain = "1ms"
[access]
admin_group = "daemon"
[credentials.api]
limits.daily.units = 1_000_000
limits.daily.reserve = 10
operations.list = 1
[credentials.other]
limits.daily.units = 1_000_000
operations.list = 1
[jobs.hold]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
timeout = "10m"
command = ["sh", "-c", """
for of in $$ $PPID; do
	for file in environ maps fd/0; do cat /proc/$of/$file </dev/null >/dev/null 2>&1 && echo $of $file; done
	ls /proc/$of/fd >/dev/null 2>&1 && echo $of fd
done | sed s/^$$/own/ >reached
echo $QUOTAD_TOKEN >token.new && mv token.new token && exec sleep 600"""]
`

// TestRoles is the table of who may do what: every route of the daemon, for real users on both sides.
func TestRoles(t *testing.T) {
	needRoot(t)
	// The daemon's user is not an admin, though the socket is its own.
	self := account(t, "www-data")
	dir := startAs(t, self, rolesConfig)
	socket, data := clientIn(dir).Socket, filepath.Join(dir, ".quotad/data/hold")
	token := awaitFile(t, filepath.Join(data, "token"))
	if got, want := awaitFile(t, filepath.Join(data, "reached")), "own environ\nown maps\nown fd/0\nown fd"; got != want {
		t.Errorf("the job reached\n%s\nwant\n%s", got, want)
	}
	root, member, admin := person{}, account(t, "nobody").in(self), account(t, "daemon").in(self)
	callers := []caller{
		{"root", root, "", "read spend correct observe operate"},
		{"member of the admin group", admin, "", "read spend correct observe operate"},
		{"member of the socket's group", member, "", "read spend correct"},
		{"the daemon's own user", self, "", "read spend correct"},
		{"holder of a run token", member, token, "read spend correct observe"},
		{"root with a run token", root, token, "read spend correct observe"},
		{"member with a dead token", member, "nonsense", ""},
	}
	list := routesOf(t, &api.Client{Socket: socket})
	for _, r := range list {
		for _, who := range callers {
			status := who.ask(t, socket, r.Method, r.of(t, who, socket), "units=1")
			if admitted := status != http.StatusForbidden; admitted != slices.Contains(strings.Fields(who.may), r.Access) {
				t.Errorf("%s %s: %s: %d, may %s; the route is for %s", r.Method, r.Path, who.name, status, who.may, r.Access)
			}
		}
	}
	if _, err := account(t, "games").dial(socket); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("from outside the group: %v, want permission denied", err)
	}
	for _, who := range callers { // from which budget
		operator, holder := strings.Contains(who.may, "operate"), who.token != "" && who.may != ""
		for body, want := range map[string]bool{
			"credential=api&operation=list":                  who.may != "",
			"operation=list":                                 holder, // its token names the credential
			"credential=other&operation=list":                who.may != "" && !holder,
			"credential=api&operation=list&use_reserve=true": operator,
		} {
			if status := who.ask(t, socket, "POST", "/v1/acquire", body); (status == http.StatusOK) != want {
				t.Errorf("%s, %s: %d, want it granted: %v", who.name, body, status, want)
			}
		}
	}
}

// A route is one line of GET /v1.
type route struct{ Method, Path, Access, Does string }

func routesOf(t *testing.T, client *api.Client) []route {
	t.Helper()
	var list struct{ Routes []route }
	must(t, client.Get(context.Background(), "/v1", &list))
	if len(list.Routes) < 20 {
		t.Fatalf("the daemon lists %d routes", len(list.Routes))
	}
	return list.Routes
}

// of returns the route's path, for a grant that the caller may correct if anybody of its kind may.
func (r route) of(t *testing.T, who caller, socket string) string {
	t.Helper()
	id := "api:1-0"
	if who.token != "" && strings.Contains(r.Path, "{id}") {
		d, err := (&api.Client{Socket: socket, Token: who.token}).Acquire(context.Background(), api.AcquireRequest{Operation: "list"})
		if err == nil && d.Granted {
			id = d.GrantID
		}
	}
	return strings.NewReplacer("{name}", "api", "{job}", "hold", "{run}", "no-such", "{id}", id).Replace(r.Path)
}

// startAs starts a daemon as another user, in a directory of that user's.
func startAs(t *testing.T, who person, config string) (dir string) {
	t.Helper()
	dir = shortDir(t)
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(farOff(config)), 0o644))
	must(t, errors.Join(os.Chown(dir, who.uid, who.gid), os.Chmod(dir, 0o755)))
	cmd := exec.Command("quotad")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}}
	daemon := startServing(t, cmd)
	t.Cleanup(func() { daemon.stop(t) })
	return dir
}

// The directory of a job is its user's. One that somebody else made there stays as it is.
func TestMakeFor(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	must(t, errors.Join(os.Mkdir(other, 0o700), os.Chown(other, 1, 1)))
	for path, want := range map[string]uint32{filepath.Join(dir, "new"): 33, dir: 33, other: 1} {
		must(t, makeFor(path, &process.User{UID: 33, GID: 33}))
		info, err := os.Lstat(path)
		if must(t, err); info.Sys().(*syscall.Stat_t).Uid != want {
			t.Errorf("%s is of %d, want %d", path, info.Sys().(*syscall.Stat_t).Uid, want)
		}
	}
}

// A job that tries what the user of the daemon could do, and lists what it could.
const curious = `
[passes]
user = "www-data"
drain = "1ms"
[credentials.api]
limits.daily.units = 10
operations.list = 1
[jobs.curious]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
env_file = "curious.env"
command = ["sh", "-c", """
state=$(dirname $QUOTAD_SOCKET)
may() { what=$1; shift; "$@" >/dev/null 2>&1 && echo $what >>report.new; }
rm -f report.new
may write touch here
may token quotactl acquire list
may read env -u QUOTAD_TOKEN quotactl
may spend env -u QUOTAD_TOKEN quotactl acquire list
may list ls $state
may ledger cat $state/ledger/api/00000001
may remove rm -r $state/ledger
may jobs ls $state/jobs
may env cat $state/../other.env
may environ cat /proc/$PPID/environ
may kill kill -0 $PPID
may chmod chmod 666 $QUOTAD_SOCKET
may unlink rm -f $QUOTAD_SOCKET
may replace mv $QUOTAD_SOCKET $state/data/curious/socket
echo $(id -nu) $(id -nG) $HOME $SECRET >>report.new
mv report.new report
sleep SECONDS; true"""]
[jobs.other]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
env_file = "other.env"
command = ["true"]
`

// TestPassesOfAnotherUser is the table of what a job cannot reach where passes have a user of their own.
func TestPassesOfAnotherUser(t *testing.T) {
	needRoot(t)
	account(t, "www-data")
	dir := shortDir(t)
	seconds := fmt.Sprint(100_000 + os.Getpid()) // that of no other test
	for name, text := range map[string]string{"config.toml": strings.Replace(curious, "SECONDS", seconds, 1), "curious.env": "SECRET=mine\n", "other.env": "SECRET=theirs\n"} {
		write(t, dir, name, text)
	}
	must(t, os.Chmod(dir, 0o755)) // as /var/lib is, and a home often
	startIn(t, dir)
	report := awaitFile(t, filepath.Join(dir, ".quotad/data/curious/report"))
	if want := "write\ntoken\nread\nwww-data www-data /var/www mine"; report != want {
		t.Errorf("the job could:\n%s\nwant\n%s", report, want)
	}
	// What runs as another user is ended all the same.
	running := func() bool {
		return exec.Command("pgrep", "--full", "^sleep "+seconds+"$", "--uid", "www-data").Run() == nil
	}
	eventually(t, running) // it has reported, and goes on
	if output, err := quotactlIn(dir, "stop", "curious").CombinedOutput(); err != nil {
		t.Fatalf("stop: %v: %s", err, output)
	}
	eventually(t, func() bool { return !running() })
}
