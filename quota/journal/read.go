package journal

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Refused says why a journal is not opened, or not read to its end: it is not as it was written, or not the one that
// was here, and what was spent would be granted again.
type Refused struct{ Why string }

const cure = "; restore it, or start once with quotad --accept-new-ledger, which sets it aside and begins an empty one"

func (e *Refused) Error() string { return e.Why + cure }

func damaged(file string, at int64, why string) error {
	return &Refused{fmt.Sprint(file, " is damaged at byte ", at, ": ", why)}
}

// Open reads the journal of a credential below a directory, or begins one where there has been none. accept has it set
// a journal aside that it would refuse, and begin an empty one.
func Open(dir, credential string, accept bool) (*Journal, error) {
	dir = filepath.Join(dir, credential)
	j, err := load(dir, credential)
	if refused := new(Refused); accept && errors.As(err, &refused) {
		aside := fmt.Sprintf("%s.aside-%d", dir, time.Now().UnixMicro())
		err = nil // what follows sets it
		for _, part := range []string{"", ".position"} {
			if failed := os.Rename(dir+part, aside+part); !errors.Is(failed, fs.ErrNotExist) {
				err = errors.Join(err, failed)
			}
		}
		if err == nil {
			j, err = load(dir, credential)
			j.Cut = refused.Why + ": it is now " + aside + ", and an empty journal begins"
		}
	}
	return j, named(err, credential)
}

func named(err error, credential string) error {
	if err != nil {
		err = fmt.Errorf("cannot open journal of %s: %w", credential, err)
	}
	return err
}

// Verify returns why Open would refuse the journal of a credential. It changes nothing.
func Verify(dir, credential string) error {
	j := &Journal{dir: filepath.Join(dir, credential), credential: credential, ids: make(map[string]place)}
	return named(j.readAll(), credential)
}

// load reads all files, and opens the last one to write it.
func load(dir, credential string) (*Journal, error) {
	j := &Journal{dir: dir, credential: credential, newFileAt: 1 << 20, ids: make(map[string]place)}
	j.fdatasync = func(f *os.File) error { return os.NewSyscallError("fdatasync", syscall.Fdatasync(int(f.Fd()))) }
	if err := j.readAll(); err != nil {
		return j, err
	}
	if len(j.files) == 0 {
		j.id = rand.Text()
		if err := errors.Join(os.MkdirAll(dir, 0o700), j.begin(1, 0)); err != nil {
			return j, err
		}
	}
	var err error
	f := j.files[len(j.files)-1]
	if j.current == nil {
		j.current, err = os.OpenFile(j.path(f.number), os.O_RDWR, 0)
	}
	if err = errors.Join(err, j.current.Truncate(f.size)); err == nil {
		err = j.flush()
	}
	if err == nil {
		err = j.position(f.number, f.size)
	}
	if _, missing := os.Stat(j.dir + ".position"); missing == nil && errors.Is(err, syscall.ENOSPC) {
		err = nil // an older position is right, too
	}
	return j, err
}

// readAll reads all files and compares them with the position, which a new journal does not have.
func (j *Journal) readAll() error {
	entries, err := os.ReadDir(j.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if number, err := strconv.Atoi(entry.Name()); err == nil { // else it was not put in place
			if err := j.readFile(number); err != nil {
				return err
			}
		}
	}
	n, position, why := len(j.files), file{}, ""
	_, err = position.scan(j.dir+".position", math.MaxInt64, func(Record) error { return nil })
	was := position.header
	id, size := readHeader(was)
	isOlder := func(f file) bool { return f.number == int(was.At) && f.size < size }
	switch none := errors.Is(err, fs.ErrNotExist); {
	case none && (n == 0 || n == 1 && j.files[0].number == 1 && len(j.ids) == 0):
		return nil
	case none:
		why = "has no position next to it"
	case err != nil:
		return err
	case n == 0:
		why = "is missing"
	case id != j.id || was.ID != j.credential:
		why = "is not the journal that was here"
	case int(was.At) > j.files[n-1].number || slices.ContainsFunc(j.files, isOlder):
		why = "is older than it was: its end is missing"
	default:
		return nil
	}
	return &Refused{j.dir + " " + why}
}

// readFile reads the next file. If its last line is incomplete, that is cut, and no file may follow.
func (j *Journal) readFile(number int) error {
	path, f, before := j.path(number), file{number: number}, file{number: number - 1}
	if n := len(j.files); n > 0 {
		before = j.files[n-1]
	}
	switch {
	case number != before.number+1:
		return damaged(j.path(before.number+1), 0, "the file is missing")
	case j.Cut != "":
		return damaged(j.path(before.number), before.size, "this line has no end, but a file follows")
	}
	rest, err := f.scan(path, math.MaxInt64, func(r Record) error {
		j.note(&f, r)
		return nil
	})
	if err != nil {
		return err
	}
	id, sum := readHeader(f.header)
	if len(j.files) == 0 {
		j.id, before.sum = id, uint32(sum)
	}
	_, _, whole := readLine(rest[:max(0, len(rest)-1)], f.sum)
	switch {
	case whole || f.size == 0: // a crash changes no byte
		return damaged(path, f.size, "this line has no end")
	case f.header != j.header(number, int64(before.sum)):
		return damaged(path, 0, "it is of another journal, or has another place in it")
	case len(rest) > 0:
		size := f.size + int64(len(rest))
		j.Cut = fmt.Sprintf("%s was cut at byte %d of %d: its last record was incomplete", path, f.size, size)
	}
	j.files = append(j.files, f)
	return nil
}

// scan reads a file up to a size, and calls each with the entries of its whole lines. It returns what follows those.
func (f *file) scan(path string, most int64, each func(Record) error) (rest []byte, err error) {
	rest, err = os.ReadFile(path)
	rest = rest[:min(int64(len(rest)), most)]
	for n := bytes.IndexByte(rest, '\n'); n >= 0; n = bytes.IndexByte(rest, '\n') {
		r, sum, ok := readLine(rest[:n], f.sum)
		if !ok || (r.Kind == header) != (f.size == 0) {
			return nil, damaged(path, f.size, "this line is not what was written here")
		}
		if f.size == 0 {
			f.header = r
			if found, _, _ := strings.Cut(r.Text, " "); found != format {
				return nil, &Refused{path + " has format " + found + ", not " + format}
			}
		} else if r.ID != "" { // a start or a stop, which journals noted before
			if err := each(r); err != nil {
				return nil, err
			}
		}
		f.size, f.sum, rest = f.size+int64(n)+1, sum, rest[n+1:]
	}
	return rest, err
}

const format = "1"

// header returns the header of a file, or the position.
func (j *Journal) header(number int, mark int64) Record {
	return Record{header, int64(number), j.credential, fmt.Sprintf("%s %s %d", format, j.id, mark)}
}

func readHeader(r Record) (id string, mark int64) {
	fmt.Sscanf(r.Text, format+" %s %d", &id, &mark)
	return id, mark
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLine appends the line of a record that follows one with a sum.
func (r Record) appendLine(lines []byte, before uint32) (appended []byte, sum uint32) {
	line := fmt.Appendf(nil, "%c %d %q %q", r.Kind, r.At, r.ID, r.Text)
	sum = crc32.Update(before, castagnoli, line)
	return fmt.Appendf(lines, "%s %08x\n", line, sum), sum
}

// readLine reads such a line. If it is not ok, it is not as it was written, or not in its place.
func readLine(line []byte, before uint32) (r Record, sum uint32, ok bool) {
	n := max(0, len(line)-len(" 01234567"))
	sum = crc32.Update(before, castagnoli, line[:n])
	if n < 2 || string(line[n:]) != fmt.Sprintf(" %08x", sum) {
		return r, sum, false
	}
	at, rest, _ := strings.Cut(string(line[2:n]), " ")
	id, err := strconv.QuotedPrefix(rest)
	var errs [3]error
	r.Kind = Kind(line[0])
	r.At, errs[0] = strconv.ParseInt(at, 10, 64)
	r.ID, errs[1] = strconv.Unquote(strings.Clone(id)) // a part of the line would keep all of it
	r.Text, errs[2] = strconv.Unquote(strings.TrimPrefix(rest[len(id):], " "))
	return r, sum, err == nil && errs == [3]error{}
}

func (j *Journal) path(number int) string { return filepath.Join(j.dir, fmt.Sprintf("%08d", number)) }

// replace puts a file in place, on disk.
func replace(path string, line []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(line)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
