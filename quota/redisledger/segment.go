package redisledger

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

const (
	journalVersion = "quotad journal 2"
	headEnd        = "h"
)

// A segment is the path of one of a journal's files. Its name says when it was begun, by this
// host's clock.
type segment string

// segmentsIn returns the segments in a directory, oldest first.
func segmentsIn(dir string) (segments []segment, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "journal-*.log"))
	slices.Sort(paths)
	for _, path := range paths {
		segments = append(segments, segment(path))
	}
	return segments, err
}

// beginSegment writes a new segment's head: its version, and lines that say all that those
// before it do.
func beginSegment(dir string, lines []byte) (segment, *os.File, int64, error) {
	path := filepath.Join(dir, fmt.Sprintf("journal-%020d.log", time.Now().UnixNano()))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", nil, 0, fmt.Errorf("cannot begin a segment of the journal: %w", err)
	}
	n, err := fmt.Fprintf(file, "%s\n%s%s\n", journalVersion, lines, headEnd)
	if err != nil {
		return "", nil, 0, errors.Join(fmt.Errorf("cannot begin a segment of the journal: %w", err), file.Close(), os.Remove(path))
	}
	return segment(path), file, int64(n), nil
}

// lines returns the whole lines of a segment: one that a crash cut short was never answered for.
func (s segment) lines() (string, error) {
	content, err := os.ReadFile(string(s))
	if err != nil {
		return "", fmt.Errorf("cannot read the journal: %w", err)
	}
	lines := string(content[:bytes.LastIndexByte(content, '\n')+1])
	if lines != "" && !strings.HasPrefix(lines, journalVersion+"\n") {
		return "", fmt.Errorf("journal %q is of another version: move the file away to go on without what it knows", string(s))
	}
	return lines, nil
}

// reopen continues a segment behind its whole lines.
func (s segment) reopen(size int64) (*os.File, error) {
	if err := os.Truncate(string(s), size); err != nil {
		return nil, fmt.Errorf("cannot mend the journal: %w", err)
	}
	file, err := os.OpenFile(string(s), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the journal: %w", err)
	}
	return file, nil
}

func (s segment) begun() time.Time {
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(string(s)), "journal-"), ".log")
	ns, _ := strconv.ParseInt(name, 10, 64)
	return time.Unix(0, ns)
}

// older tells whether the last line of a segment is older than that.
func (s segment) older(than time.Duration) bool {
	info, err := os.Stat(string(s))
	return err == nil && time.Since(info.ModTime()) > than
}

// entries hands over the entries of a credential's log since a time.
func (s segment) entries(credential string, since time.Time, take func(id, text string) error) error {
	file, err := os.Open(string(s))
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
