package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A line is a video as upstream describes it, and when and where it was fetched.
type line struct {
	At     time.Time       `json:"at"`
	Region string          `json:"region"`
	Query  string          `json:"query,omitempty"` // of discover
	Rank   int             `json:"rank,omitempty"`  // in the chart, from 1
	Video  json.RawMessage `json:"video"`
}

// store appends videos to the file of their day and region. The rank of those that a query found is 0.
func (p *pass) store(videos []json.RawMessage, rank int) error {
	var text bytes.Buffer
	at := p.now().UTC().Truncate(time.Second)
	for _, video := range videos {
		err := json.NewEncoder(&text).Encode(line{at, p.region, p.query, rank, video}) // a line: it compacts the video
		if err != nil {
			return err
		}
		if p.query == "" {
			rank++
		}
	}
	p.file = filepath.Join(p.out, at.Format(time.DateOnly)+"-"+p.region+".jsonl")
	if err := appendLines(p.file, text.Bytes()); err != nil {
		return fmt.Errorf("cannot store videos: %w", err)
	}
	p.videos += len(videos)
	return nil
}

// appendLines appends whole lines to a file, and returns when they are on disk. What a killed process left of a line at
// its end is cut off first. After an error the file holds what it held.
func appendLines(path string, lines []byte) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	end, err := endOfLines(file)
	if err == nil {
		err = file.Truncate(end)
	}
	if err != nil {
		return err
	}
	_, err = file.WriteAt(lines, end)
	if err = errors.Join(err, file.Sync()); err != nil {
		err = errors.Join(err, file.Truncate(end))
	}
	return err
}

// endOfLines returns where the last whole line of a file ends.
func endOfLines(file *os.File) (end int64, err error) {
	end, err = file.Seek(0, io.SeekEnd)
	for one := []byte{0}; err == nil && end > 0; end-- {
		if _, err = file.ReadAt(one, end-1); one[0] == '\n' {
			break
		}
	}
	return end, err
}
