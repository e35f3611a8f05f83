package main

import (
	"bufio"
	"context"
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
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return person{uid: uid, gid: gid}
}

func (p person) in(group person) person {
	p.groups = append(p.groups, group.gid)
	return p
}

// dial connects as the person: for the kernel that is who the thread is that
// connects.
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
command = ["sh", "-c", "echo $QUOTAD_TOKEN >token.new && mv token.new token && exec sleep 600"]
`

// TestRoles is the table of who may do what: every route of the daemon, for real
// users on both sides.
func TestRoles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can call as other users")
	}
	// The daemon's user is not an admin, though the socket is its own.
	self := account(t, "www-data")
	dir := startAs(t, self, rolesConfig)
	socket := filepath.Join(dir, ".quotad/quotad.sock")
	token := awaitFile(t, filepath.Join(dir, ".quotad/data/hold/token"))
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
	var list struct{ Routes []route }
	must(t, (&api.Client{Socket: socket}).Get(context.Background(), "/v1", &list))
	if len(list.Routes) < 20 {
		t.Fatalf("the daemon lists %d routes", len(list.Routes))
	}
	for _, r := range list.Routes {
		t.Run(r.Method+" "+r.Path, func(t *testing.T) {
			for _, who := range callers {
				status := who.ask(t, socket, r.Method, r.of(t, who, socket), "units=1")
				if admitted := status != http.StatusForbidden; admitted != slices.Contains(strings.Fields(who.may), r.Access) {
					t.Errorf("%s: %d, may %s; the route is for %s", who.name, status, who.may, r.Access)
				}
			}
			if _, err := account(t, "games").dial(socket); err == nil || !strings.Contains(err.Error(), "permission denied") {
				t.Errorf("from outside the group: %v, want permission denied", err)
			}
		})
	}
	t.Run("the reserve and other credentials", func(t *testing.T) { checkSpending(t, socket, callers) })
}

// A caller at the metrics' address may read them, and nothing else of any route.
func TestReadersOfMetrics(t *testing.T) {
	t.Parallel()
	daemon, client := startWith(t, rolesConfig+"[metrics]\nlisten = \"127.0.0.1:0\"\n")
	address := "http://" + daemon.logged(t, "serving metrics", "address")
	var list struct{ Routes []route }
	must(t, client.Get(t.Context(), "/v1", &list))
	read := 0
	for _, r := range list.Routes {
		request, err := http.NewRequestWithContext(t.Context(), r.Method, address+strings.NewReplacer("{", "", "}", "").Replace(r.Path), nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(request)
		must(t, err)
		answer.Body.Close()
		want := http.StatusNotFound
		if slices.Contains([]string{"/metrics", "/healthz", "/readyz"}, r.Path) {
			want, read = http.StatusOK, read+1
		}
		if answer.StatusCode != want {
			t.Errorf("%s %s: %d, want %d", r.Method, r.Path, answer.StatusCode, want)
		}
	}
	if read != 3 {
		t.Errorf("%d routes can be read there, want 3", read)
	}
}

// checkSpending is about what one route leaves open: from which budget.
func checkSpending(t *testing.T, socket string, callers []caller) {
	for _, who := range callers {
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

// of returns the route's path, for a grant that the caller may correct if anybody
// of its kind may.
func (r route) of(t *testing.T, who caller, socket string) string {
	t.Helper()
	path := strings.NewReplacer("{name}", "api", "{job}", "hold", "{run}", "no-such").Replace(r.Path)
	if !strings.Contains(path, "{id}") {
		return path
	}
	if who.token == "" {
		return strings.Replace(path, "{id}", "api:1-0", 1)
	}
	return strings.Replace(path, "{id}", who.grant(t, socket), 1)
}

// grant returns the id of a grant of the caller's own.
func (c caller) grant(t *testing.T, socket string) string {
	t.Helper()
	d, err := (&api.Client{Socket: socket, Token: c.token}).Acquire(context.Background(), api.AcquireRequest{Operation: "list"})
	if !isAnswer(err) {
		t.Fatal(err)
	}
	if !d.Granted {
		return "api:1-0"
	}
	return d.GrantID
}

// ask sends a request as the caller and returns the answer's status.
func (c caller) ask(t *testing.T, socket, method, path, form string) int {
	t.Helper()
	conn, err := c.person.dial(socket)
	if err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
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

// startAs starts a daemon as another user, in a directory of that user's.
func startAs(t *testing.T, who person, config string) (dir string) {
	t.Helper()
	dir = shortDir(t)
	startAsIn(t, who, dir, config)
	return dir
}

// startAsIn is startAs in a directory that becomes that user's.
func startAsIn(t *testing.T, who person, dir, config string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(farOff(config)), 0o644))
	must(t, os.Chown(dir, who.uid, who.gid))
	must(t, os.Chmod(dir, 0o755))
	cmd := exec.Command("quotad")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}}
	daemon, err := startChild(cmd)
	must(t, err)
	t.Cleanup(func() {
		daemon.cmd.Process.Signal(syscall.SIGTERM)
		if _, err := daemon.end(); err != nil {
			t.Error(err)
			daemon.kill()
		}
	})
	daemon.logs(t, "^serving$")
}

// awaitFile returns what a file holds, once there is one.
func awaitFile(t *testing.T, path string) string {
	t.Helper()
	var text []byte
	eventually(t, func() (there bool) {
		var err error
		text, err = os.ReadFile(path)
		return err == nil
	})
	return strings.TrimSpace(string(text))
}
