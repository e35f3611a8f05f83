package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// longestFile is what a configuration file, and each file that it names, may hold.
const longestFile = 1 << 20

// A fileText is what a file holds, and what everybody on this host may do with it.
type fileText struct {
	text               string
	readable, writable bool
}

// readFile reads a regular file: of any other, a pipe for instance, one could wait
// for ever.
func readFile(path string) (fileText, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fileText{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fileText{}, err
	}
	if !info.Mode().IsRegular() {
		return fileText{}, fmt.Errorf("%s is %s: name a regular file", path, kindOf(info.Mode()))
	}
	text, err := io.ReadAll(io.LimitReader(file, longestFile+1))
	if err != nil {
		return fileText{}, err
	}
	if len(text) > longestFile {
		return fileText{}, fmt.Errorf("%s has more than %d bytes: name a smaller file", path, longestFile)
	}
	return fileText{text: string(text), readable: info.Mode()&0o004 != 0, writable: info.Mode()&0o002 != 0}, nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	default:
		return "a device"
	}
}
