package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// A forger writes records into a log in Redis as a host that has the daemon's limits.
type forger struct {
	t      *testing.T
	server *redistest.Server
	terms  [4]byte
	at     int64
}

const forgedLog = "quotad:{api}:log"

func newForger(t *testing.T, server *redistest.Server) *forger {
	t.Helper()
	f := &forger{t: t, server: server, at: time.Now().UnixMilli()}
	for _, record := range server.Do(t, "XRANGE", forgedLog, "-", "+").([]any) {
		if body := record.([]any)[1].([]any)[1].(string); strings.Contains(body, "\x04list\x00") { // a grant
			copy(f.terms[:], body[25:])
		}
	}
	if f.terms == [4]byte{} {
		t.Fatal("no grant is in the log")
	}
	return f
}

// grants writes a record as redis-cli does.
func (f *forger) grants(id quota.ID, units quota.Units, key string) {
	f.t.Helper()
	r := slidinglog.Record{Tag: slidinglog.NewTag(), Host: slidinglog.HostID{'f', 'o', 'r', 'g', 'e', 'd'}, Run: 1, Terms: f.terms, Most: math.MaxUint32,
		Entries: []quota.Entry{{ID: id, Gen: quota.Unplaced, By: "forger",
			Charges: []quota.Charge{{Limit: "daily", Units: units}}, Body: quota.Grant{Operation: "list", Count: units, Key: key}}}}
	f.at = max(f.at+1, time.Now().UnixMilli())
	f.server.Do(f.t, "XADD", forgedLog, strconv.FormatInt(f.at, 10)+"-0", "r", string(r.Body()))
}

// Each invariant that a log in Redis can violate, and what the daemon says of it.
var forgeries = map[string]struct {
	forge func(f *forger)
	says  string
}{
	"budget": {func(f *forger) { f.grants(quota.ID{}, 250, "") }, "budget: limit daily counts 251 since a grant of 250 units, and 100 is the most"},
	"request id": {func(f *forger) {
		f.grants(quota.ID{}, 1, "0123456789abcdef")
		f.grants(quota.ID{}, 1, "0123456789abcdef")
	}, "request id: a request id was granted again"},
	"places": {func(f *forger) {
		f.grants(quota.ID{Ms: f.at + time.Hour.Milliseconds(), Seq: 1}, 1, "")
	}, `places: a record at \d+-0 has an entry of \d+`},
}

// An invariant that does not hold in a running daemon is a trouble, grave, with a file of what was there. With
// on_violation = "close" the credential is refused, also after a restart, until the file is moved away.
func TestForgedRecords(t *testing.T) {
	t.Parallel()
	for name, row := range forgeries {
		for _, mode := range []string{"report", "close"} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				w := newViolated(t, onRedis(server.Addr), mode, 100)
				if status, answer := w.acquire(1); status != http.StatusOK {
					t.Fatal(answer)
				}
				row.forge(newForger(t, server))
				w.violated(row.says, true)
			})
		}
	}
}

// A sum that is not that of its entries, because a byte of the file of a running daemon has changed, together with
// its checksum, is noticed, and then counted again.
func TestForgedSum(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"report", "close"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newViolated(t, `backend = "embedded"`, mode, 1_000_000)
			for range 3 {
				if status, answer := w.acquire(7); status != http.StatusOK {
					t.Fatal(answer)
				}
			}
			row := []byte("\x04list\x00\x01\x05daily\x0e") // the end of a grant of 7 units in the table; 9 are 0x12
			path := filepath.Join(w.state, "ledger.db")
			eventually(t, func() bool { // it is folded into the tables
				content, err := os.ReadFile(path)
				return err == nil && bytes.Count(content, row) >= 3
			})
			castagnoli := crc32.MakeTable(crc32.Castagnoli)
			differs := crc32.Checksum([]byte{0x0e ^ 0x12}, castagnoli) ^ crc32.Checksum([]byte{0}, castagnoli)
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			defer file.Close()
			content, _ := os.ReadFile(path)
			for at := 0; ; {
				next := bytes.Index(content[at:], row)
				if next < 0 {
					break
				}
				at += next + len(row)
				sum := binary.BigEndian.AppendUint32([]byte{0x12}, binary.BigEndian.Uint32(content[at:])^differs)
				if _, err := file.WriteAt(sum, int64(at-1)); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, func() bool {
				w.acquire(1)
				_, err := os.Stat(w.file)
				return err == nil
			})
			w.violated(`sums: limit daily counts \d+, its parts \d+, and one of them \d+, of which the entries are \d+ units`, false)
		})
	}
}

// A violated daemon is one with a credential whose books are about to be wrong.
type violated struct {
	t                *testing.T
	dir, state, file string
	mode             string
	daemon           *child
}

func newViolated(t *testing.T, ledger, mode string, units int) *violated {
	t.Helper()
	dir := shortDir(t)
	writeConfig(t, dir, fmt.Sprintf("[ledger]\non_violation = %q\n%s\n[credentials.api]\nlimits.daily.units = %d\noperations.list = 1\n", mode, ledger, units))
	state := filepath.Join(dir, ".quotad")
	return &violated{t: t, dir: dir, state: state, file: filepath.Join(state, "violation-api.jsonl"), mode: mode, daemon: startIn(t, dir)}
}

func (w *violated) acquire(units int) (status int, answer string) {
	return requestOf(w.t, w.dir, http.MethodPost, "/v1/acquire", fmt.Sprintf(`{"credential":"api","operation":"list","count":%d}`, units))
}

// command returns what quotactl prints.
func (w *violated) command(args ...string) string {
	w.t.Helper()
	cmd := exec.Command("quotactl", args...)
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("quotactl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// violated holds what the daemon, its file and its answers say, until the file is moved away.
func (w *violated) violated(says string, record bool) {
	t := w.t
	t.Helper()
	eventually(t, func() bool {
		_, err := os.Stat(w.file)
		return err == nil
	})
	w.daemon.logs(t, "^an invariant does not hold$", "credential=api")
	w.content(says, record)
	w.troubled(says)
	w.daemon.kill()
	w.daemon = startIn(t, w.dir)
	w.troubled(says)

	must(t, os.Rename(w.file, filepath.Join(w.dir, "kept.jsonl")))
	if status := w.command("status"); strings.Contains(status, "counts api wrongly") {
		t.Errorf("it is not over: %s", status)
	}
	if status, answer := w.acquire(1); status == http.StatusServiceUnavailable {
		t.Errorf("it is not open again: %s", answer)
	}
}

// troubled holds the violation against status, metric and answers.
func (w *violated) troubled(says string) {
	t := w.t
	t.Helper()
	lost, end := "", "move it away"
	if w.mode == "close" {
		lost, end = ", and grants nothing", "open it by moving the file away"
	}
	line := regexp.MustCompile(`quotad counts api wrongly` + lost + ` \(` + says + `\): report that with violation-api.jsonl, and ` + end)
	if status := strings.Join(strings.Fields(w.command("status")), " "); !line.MatchString(status) || !strings.Contains(status, "mv "+w.file+" .") {
		t.Errorf("status: %s\nwant %s", status, line)
	}
	if _, metrics := requestOf(t, w.dir, http.MethodGet, "/metrics", ""); !strings.Contains(metrics, `quotad_trouble{grave="true",kind="invariant",of="credential api"} 1`) {
		t.Error("no metric has it")
	}
	status, answer := w.acquire(1)
	closed := regexp.MustCompile(`credential \\"api\\" is closed, because an invariant of its log does not hold .*move the file away to open the credential","reason":"ledger_unavailable"`)
	if shut := status == http.StatusServiceUnavailable && closed.MatchString(answer); shut != (w.mode == "close") {
		t.Errorf("an acquire is answered %d %s", status, answer)
	}
}

// content holds the file against its description.
func (w *violated) content(says string, record bool) {
	t := w.t
	t.Helper()
	info, err := os.Stat(w.file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	content, err := os.ReadFile(w.file)
	must(t, err)
	var head struct {
		Credential, Invariant, Says, Place, Record string
		At                                         time.Time
	}
	lines := json.NewDecoder(bytes.NewReader(content))
	if err := lines.Decode(&head); err != nil || head.Credential != "api" || (head.Record != "") != record || head.At.IsZero() ||
		!regexp.MustCompile("^"+says+"$").MatchString(head.Invariant+": "+head.Says) {
		t.Errorf("it begins with %+v, %v", head, err)
	}
	entries := 0
	for ; lines.More(); entries++ {
		var e struct {
			At    time.Time
			Kind  string
			Entry struct{ Charges []quota.Charge }
		}
		if err := lines.Decode(&e); err != nil || e.Kind != "grant" || len(e.Entry.Charges) != 1 {
			t.Errorf("an entry is %+v, %v", e, err)
		}
	}
	if entries < 2 {
		t.Errorf("it has %d entries", entries)
	}
}
