package config

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"
)

// maxFile is the maximum size of a configuration file, and of each file that it names.
const maxFile = 1 << 20

// A fileText is the text of a file, and what every user of this host may do with it.
type fileText struct {
	text               string
	readable, writable bool
	info               fs.FileInfo
}

// readableBy reports whether the mode lets a user read the file.
func (f fileText) readableBy(u *user.User) bool {
	stat, ok := f.info.Sys().(*syscall.Stat_t)
	if !ok {
		return true
	}
	groups, _ := u.GroupIds()
	mode := f.info.Mode()
	switch {
	case strconv.Itoa(int(stat.Uid)) == u.Uid:
		return mode&0o400 != 0
	case slices.Contains(groups, strconv.Itoa(int(stat.Gid))):
		return mode&0o040 != 0
	}
	return f.readable
}

// readFile reads a regular file. Reading another one, such as a pipe, could block
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
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return fileText{}, err
	}
	if len(text) > maxFile {
		return fileText{}, fmt.Errorf("%s has more than %d bytes: name a smaller file", path, maxFile)
	}
	return fileText{text: string(text), readable: info.Mode()&0o004 != 0, writable: info.Mode()&0o002 != 0, info: info}, nil
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
