package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Resolve returns the absolute path of the program that a job's command names. A name without a slash is looked up in
// besideDir, where the quotad executable is, and then in the directories of PATH; one with a slash is a path,
// relative to configDir, where the configuration file is. A file of its name that is no program does not hide a later
// one. The error says where was looked, or what is wrong with what is there.
func Resolve(name, besideDir, configDir string) (path string, err error) {
	isPath := strings.Contains(name, "/")
	dirs := []string{besideDir}
	switch {
	case name == "":
		return "", errors.New("the command names no program")
	case filepath.IsAbs(name):
		dirs = []string{""}
	case isPath:
		dirs = []string{configDir}
	default:
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			// A relative entry would mean another program in every directory.
			if filepath.IsAbs(dir) && !slices.Contains(dirs, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	var unusable error
	for _, dir := range dirs {
		if path, err = filepath.Abs(filepath.Join(dir, name)); err == nil {
			err = executable(path)
		}
		if err == nil {
			return path, nil
		}
		if unusable == nil && !errors.Is(err, fs.ErrNotExist) && (isPath || !errors.Is(err, syscall.ENOTDIR)) {
			unusable = err
		}
	}
	switch {
	case unusable != nil:
		return "", fmt.Errorf("cannot use command %q: %w", name, unusable)
	case isPath:
		return "", fmt.Errorf("command %q not found: there is no %s", name, path)
	}
	return "", fmt.Errorf("command %q not found: it is neither in the directory of quotad nor in PATH: %s", name, strings.Join(dirs, ", "))
}

// executable returns nil if path is a program that we may execute.
func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	case unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil:
		return fmt.Errorf("%s is not for user %s to execute: chmod 755 %[1]s", path, (*User)(nil))
	}
	return nil
}
