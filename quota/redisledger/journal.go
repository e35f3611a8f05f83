package redisledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"quotad/quota"
)

// A journal is this daemon's own record of what it wrote to the logs, and of what it granted
// while Redis was away. Its segments are only appended to; the newest one, by itself, tells
// all that a start needs to know: behind its version, a line, stands what those before it
// said, and then headEnd. Where a machine that lost its power has nothing of that end, the
// segments before are read too. Each other line stands alone:
//
//	m <credential> <epoch> <newest id> <units used per limit> <daemons that wrote>   what is known of a log
//	e <credential> <epoch> <id> <entry>                          an entry of it
//	o <credential> <id> <units settled to, or -> <entry>         an offline grant; a later line replaces it
//	b <credential> <id> <units settled to, or ->                 it is in the log as it was then
//	c <credential> <id> <entry>                                  a limit is closed, as an entry before this segment says
//
// What is written survives the daemon at once, and the machine where it was synced.
type journal struct {
	dir  string
	keep time.Duration

	mu       sync.Mutex // guards what follows; held over writes, never over a sync
	file     *os.File   // the newest segment
	size     int64
	segments []string // paths, oldest first
	broken   int      // lines that cannot be read
	marks    map[string]mark
	grants   map[string]map[quota.ID]offlineGrant // by credential: pending, or young
	closed   map[string]map[string]closing        // by credential and limit: what closed it
}

// A closing is the entry of a limit that is closed, and what it says.
type closing struct {
	id, text string
	closed   quota.Closed
}

// A mark is what is known of a credential's log.
type mark struct {
	credential string
	position
	used    map[string]quota.Units
	daemons map[string]time.Time // that wrote to it, and when
}

const (
	journalVersion = "quotad journal 2"
	headEnd        = "h"
	// segmentSize is where a segment ends and the next one begins.
	segmentSize = 8 << 20
)

// openJournal opens the journal in a directory, which it makes. Lines older than keep may
// be dropped.
func openJournal(dir string, keep time.Duration) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the journal's directory: %w", err)
	}
	if old, _ := filepath.Glob(filepath.Join(dir, "journal-*.jsonl")); len(old) > 0 {
		return nil, fmt.Errorf("journal %q is of another version: move the file away to go on without what it knows", old[0])
	}
	segments, err := filepath.Glob(filepath.Join(dir, "journal-*.log"))
	if err != nil {
		return nil, err
	}
	slices.Sort(segments)
	j := &journal{
		dir: dir, keep: keep, segments: segments,
		marks: make(map[string]mark), grants: make(map[string]map[quota.ID]offlineGrant),
		closed: make(map[string]map[string]closing),
	}
	return j, j.open()
}

// open takes in what the newest segment says, and those before it down to one with a whole
// head, and continues it. Where it has no such head, it begins another one.
func (j *journal) open() error {
	var said []string
	size, headed := 0, false
	for i := len(j.segments) - 1; i >= 0 && !headed; i-- {
		lines, err := readSegment(j.segments[i])
		if err != nil {
			return err
		}
		if i == len(j.segments)-1 {
			size = len(lines)
		}
		_, lines, _ = strings.Cut(lines, "\n")
		headed = strings.HasPrefix(lines, headEnd+"\n") || strings.Contains(lines, "\n"+headEnd+"\n")
		said = append(said, lines)
	}
	for _, lines := range slices.Backward(said) {
		for line := range strings.Lines(lines) {
			j.take(strings.TrimSuffix(line, "\n"))
		}
	}
	if len(said) != 1 || !headed {
		_, err := j.next()
		return err
	}
	path := j.segments[len(j.segments)-1]
	if err := os.Truncate(path, int64(size)); err != nil {
		return fmt.Errorf("cannot mend the journal: %w", err)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the journal: %w", err)
	}
	j.file, j.size = file, int64(size)
	return nil
}

// readSegment returns the whole lines of a segment: one that a crash cut short was never
// answered for.
func readSegment(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("cannot read the journal: %w", err)
	}
	lines := string(content[:bytes.LastIndexByte(content, '\n')+1])
	if lines != "" && !strings.HasPrefix(lines, journalVersion+"\n") {
		return "", fmt.Errorf("journal %q is of another version: move the file away to go on without what it knows", path)
	}
	return lines, nil
}

// take takes in what a line says.
func (j *journal) take(line string) {
	if line == headEnd {
		return
	}
	words := strings.SplitN(line, " ", 5)
	if len(words) < 4 {
		j.broken++
		return
	}
	name := words[1]
	switch id, err := quota.ParseID(words[min(3, len(words)-1)]); {
	case words[0] == "m" && err == nil && len(words) == 5:
		m := mark{credential: name, position: position{epoch: unword(words[2]), newest: id}, used: make(map[string]quota.Units)}
		used, daemons, _ := strings.Cut(words[4], " ")
		m.daemons = parseDaemons(daemons)
		for _, charge := range parseCharges(used) {
			m.used[charge.Limit] = charge.Units
		}
		j.noteMark(m)
	case words[0] == "e" && err == nil && len(words) == 5:
		m := j.marks[name]
		if m.credential == "" {
			m = mark{credential: name, used: make(map[string]quota.Units)}
		}
		if words[2] != m.epoch || m.newest.Less(id) {
			m.position = position{epoch: words[2], newest: id}
		}
		list, _, _ := strings.Cut(words[4], " ")
		for _, charge := range parseCharges(strings.TrimLeft(list, "gu")) {
			m.used[charge.Limit] += charge.Units
		}
		j.marks[name] = m
		j.noteClosing(name, words[3], words[4])
	case words[0] == "c":
		j.noteClosing(name, words[2], strings.Join(words[3:], " "))
	case words[0] == "o" && len(words) == 5:
		id, err1 := quota.ParseID(words[2])
		g, err2 := readOffline(id, words[3], words[4])
		if err1 != nil || err2 != nil {
			j.broken++
			return
		}
		j.noteOffline(name, g)
	case words[0] == "b":
		id, err := quota.ParseID(words[2])
		if err != nil {
			j.broken++
			return
		}
		if g, ok := j.grants[name][id]; ok && g.settledTo == words[3] {
			g.pending = false
			j.noteOffline(name, g)
		}
	default:
		j.broken++
	}
}

func readOffline(id quota.ID, settledTo, text string) (offlineGrant, error) {
	e, err := parseEntry(id, text)
	if err != nil || e.Kind != quota.KindGrant {
		return offlineGrant{}, errors.Join(errReply, err)
	}
	return offlineGrant{
		id: id, operation: e.Operation, count: e.Count, digest: text[strings.LastIndexByte(text, ' ')+1:],
		text: text, charges: e.Charges, units: quota.Max(e.Charges), settledTo: settledTo, written: true, pending: true,
	}, nil
}

// noteClosing takes in an entry that closes a limit, or opens it, or all of them.
func (j *journal) noteClosing(name, id, text string) {
	if text == "" || strings.IndexByte("cor", text[0]) < 0 {
		return
	}
	at, err1 := quota.ParseID(id)
	e, err2 := parseEntry(at, text)
	switch {
	case err1 != nil || err2 != nil:
		j.broken++
	case e.Kind == quota.KindReset:
		delete(j.closed, name)
	case e.Kind == quota.KindOpening:
		delete(j.closed[name], e.Limit)
	case e.Kind == quota.KindClosing:
		if j.closed[name] == nil {
			j.closed[name] = make(map[string]closing)
		}
		j.closed[name][e.Limit] = closing{id: id, text: text, closed: e.Closed()}
	}
}

// closings returns which limits of a credential are closed, as far as this daemon said so.
func (j *journal) closings(credential string) map[string]quota.Closed {
	j.mu.Lock()
	defer j.mu.Unlock()
	closed := make(map[string]quota.Closed)
	for limit, c := range j.closed[credential] {
		closed[limit] = c.closed
	}
	return closed
}

// closingEntries returns the entries that closed them.
func (j *journal) closingEntries(credential string) (entries []closing) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.closed[credential] {
		entries = append(entries, c)
	}
	return entries
}

func (j *journal) noteOffline(name string, g offlineGrant) {
	if j.grants[name] == nil {
		j.grants[name] = make(map[quota.ID]offlineGrant)
	}
	j.grants[name][g.id] = g
}

// known returns what the newest segment knows of a credential.
func (j *journal) known(credential string) (mark, []*offlineGrant) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var grants []*offlineGrant
	for _, g := range j.grants[credential] {
		grants = append(grants, &g)
	}
	slices.SortFunc(grants, func(a, b *offlineGrant) int { return a.id.Compare(b.id) })
	return j.marks[credential], grants
}

// A logLine is an entry of a log as it stands there.
type logLine struct{ id, text string }

// log writes entries of a log.
func (j *journal) log(credential, epoch string, entries ...logLine) error {
	lines, newest := make([]byte, 0, 160*len(entries)), quota.ID{}
	for _, e := range entries {
		id, err := quota.ParseID(e.id)
		if err != nil {
			return err
		}
		if newest.Less(id) {
			newest = id
		}
		lines = append(append(append(lines, "e "...), credential...), ' ')
		lines = append(append(append(lines, epoch...), ' '), e.id...)
		lines = append(append(append(lines, ' '), e.text...), '\n')
	}
	_, err := j.append(lines, func() {
		m := j.marks[credential]
		m.credential = credential
		if m.epoch != epoch || m.newest.Less(newest) {
			m.position = position{epoch: epoch, newest: newest}
		}
		j.marks[credential] = m
		for _, e := range entries {
			j.noteClosing(credential, e.id, e.text)
		}
	})
	return err
}

// mark writes what is known of a log.
func (j *journal) mark(m mark) error {
	_, err := j.append([]byte(m.line()), func() { j.noteMark(m) })
	return err
}

// noteMark takes in a mark. Its position may be older than an entry written since: of one
// log the newest counts.
func (j *journal) noteMark(m mark) {
	if before := j.marks[m.credential]; before.epoch == m.epoch && m.newest.Less(before.newest) {
		m.newest = before.newest
	}
	j.marks[m.credential] = m
}

func (m mark) line() string {
	names := slices.Sorted(maps.Keys(m.used))
	return fmt.Sprintf("m %s %s %s %s %s\n", m.credential, word(m.epoch), m.newest, word2(formatCharges(m.used, names)), formatDaemons(m.daemons))
}

// parseDaemons reads "name@ms name@ms": which daemons wrote to a log, and when.
func parseDaemons(list string) map[string]time.Time {
	daemons := make(map[string]time.Time)
	for _, item := range strings.Fields(list) {
		name, text, _ := strings.Cut(item, "@")
		ms, _ := strconv.ParseInt(text, 10, 64)
		daemons[name] = time.UnixMilli(ms)
	}
	return daemons
}

func formatDaemons(daemons map[string]time.Time) string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(daemons)) {
		items = append(items, fmt.Sprintf("%s@%d", name, daemons[name].UnixMilli()))
	}
	return strings.Join(items, " ")
}

// word2 keeps a list of charges one word.
func word2(list string) string {
	if list == "" {
		return "-"
	}
	return list
}

// offline writes offline grants, and returns once the disk has them.
func (j *journal) offline(credential string, grants ...*offlineGrant) error {
	var lines bytes.Buffer
	for _, g := range grants {
		lines.WriteString(g.line(credential))
	}
	file, err := j.append(lines.Bytes(), func() {
		for _, g := range grants {
			j.noteOffline(credential, *g)
		}
	})
	if err != nil {
		return err
	}
	return sync1(file)
}

func (g *offlineGrant) line(credential string) string {
	return fmt.Sprintf("o %s %s %s %s\n", credential, g.id, g.settledTo, g.text)
}

// replayed writes that offline grants are in the log, and returns once the disk has it.
func (j *journal) replayed(credential string, grants []offlineGrant) error {
	var lines bytes.Buffer
	for _, g := range grants {
		fmt.Fprintf(&lines, "b %s %s %s\n", credential, g.id, g.settledTo)
	}
	file, err := j.append(lines.Bytes(), func() {
		for _, g := range grants {
			if kept := j.grants[credential][g.id]; kept.settledTo == g.settledTo {
				g.pending = false
				j.noteOffline(credential, g)
			}
		}
	})
	if err != nil {
		return err
	}
	return sync1(file)
}

// sync1 syncs a segment. One that has been closed was synced before.
func sync1(file *os.File) error {
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// append writes lines with one call, and notes what they say. It returns the segment that
// has them.
func (j *journal) append(lines []byte, note func()) (*os.File, error) {
	file, ended, err := j.appendLocked(lines, note)
	if ended != nil {
		err = errors.Join(err, sync1(ended), ended.Close())
	}
	return file, err
}

func (j *journal) appendLocked(lines []byte, note func()) (file, ended *os.File, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(lines); err != nil {
		return nil, nil, err
	}
	note()
	file = j.file
	if j.size >= segmentSize {
		// The lines are written; a segment that cannot begin now begins after the next
		// ones, and what keeps it from that keeps them from being written.
		ended, _ = j.next()
	}
	return file, ended, nil
}

// write appends whole lines or nothing.
func (j *journal) write(content []byte) error {
	n, err := j.file.Write(content)
	if err == nil {
		j.size += int64(n)
		return nil
	}
	if n > 0 {
		err = errors.Join(err, j.file.Truncate(j.size))
	}
	return fmt.Errorf("cannot write the journal: %w", err)
}

// next begins a segment with all that a start needs to know, and drops those that are older
// than anything kept. It returns the segment that has ended, to be closed.
func (j *journal) next() (ended *os.File, err error) {
	path := filepath.Join(j.dir, fmt.Sprintf("journal-%020d.log", time.Now().UnixNano()))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot begin a segment of the journal: %w", err)
	}
	var head bytes.Buffer
	fmt.Fprintln(&head, journalVersion)
	for _, name := range slices.Sorted(maps.Keys(j.marks)) {
		head.WriteString(j.marks[name].line())
	}
	oldest := time.Now().Add(-j.keep).UnixMilli()
	for name, limits := range j.closed {
		maps.DeleteFunc(limits, func(_ string, c closing) bool { return c.closed.Until.UnixMilli() < oldest })
		for _, limit := range slices.Sorted(maps.Keys(limits)) {
			fmt.Fprintf(&head, "c %s %s %s\n", name, limits[limit].id, limits[limit].text)
		}
	}
	for name, grants := range j.grants {
		maps.DeleteFunc(grants, func(id quota.ID, g offlineGrant) bool { return !g.pending && id.Ms < oldest })
		for _, id := range slices.SortedFunc(maps.Keys(grants), quota.ID.Compare) {
			g := grants[id]
			head.WriteString(g.line(name))
			if !g.pending {
				fmt.Fprintf(&head, "b %s %s %s\n", name, id, g.settledTo)
			}
		}
	}
	fmt.Fprintln(&head, headEnd)
	if _, err := file.Write(head.Bytes()); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot begin a segment of the journal: %w", err), file.Close(), os.Remove(path))
	}
	ended, j.file, j.size, j.segments = j.file, file, int64(head.Len()), append(j.segments, path)
	for len(j.segments) > 1 && j.outdated(j.segments[0]) {
		if os.Remove(j.segments[0]) != nil {
			break
		}
		j.segments = j.segments[1:]
	}
	return ended, nil
}

func (j *journal) outdated(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > j.keep
}

// Close closes the journal.
func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.file.Sync(), j.file.Close())
}

// unreadable is how many lines could not be read.
func (j *journal) unreadable() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.broken
}

// entries hands over every entry of a credential's log since a time, also what was granted
// offline, as far as this daemon knows it. It does not hold the journal up.
func (j *journal) entries(credential string, since time.Time, take func(id, text string) error) error {
	j.mu.Lock()
	segments := slices.Clone(j.segments)
	j.mu.Unlock()
	for i, path := range segments {
		// Names tell when a segment began by this host's clock, which may not be the log's.
		if i+1 < len(segments) && begun(segments[i+1]).Before(since.Add(-time.Hour)) {
			continue
		}
		if err := j.entriesIn(path, credential, since, take); err != nil {
			return err
		}
	}
	return nil
}

func begun(path string) time.Time {
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "journal-"), ".log")
	ns, _ := strconv.ParseInt(name, 10, 64)
	return time.Unix(0, ns)
}

func (j *journal) entriesIn(path, credential string, since time.Time, take func(id, text string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	defer file.Close()
	written, offline := []byte("e "+credential+" "), []byte("o "+credential+" ")
	for reader := bufio.NewReaderSize(file, 1<<16); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // the last line may have been cut short, or is being written
		}
		if err != nil {
			return fmt.Errorf("cannot read the journal: %w", err)
		}
		var id, text []byte
		switch line = bytes.TrimSuffix(line, []byte("\n")); {
		case bytes.HasPrefix(line, written):
			_, rest, _ := bytes.Cut(line[len(written):], []byte(" "))
			id, text, _ = bytes.Cut(rest, []byte(" "))
		case bytes.HasPrefix(line, offline):
			id, text, _ = bytes.Cut(line[len(offline):], []byte(" "))
			_, text, _ = bytes.Cut(text, []byte(" "))
		default:
			continue
		}
		at, err := quota.ParseID(string(id))
		if err != nil || at.Time().Before(since) {
			continue
		}
		if err := take(string(id), string(text)); err != nil {
			return err
		}
	}
}
