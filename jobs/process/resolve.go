package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Resolve returns the absolute path of the program that a job's command names.
// A name without a slash is looked up in besideDir, where the quotad executable
// is, and then in the directories of PATH; one with a slash is a path, relative
// to configDir, where the configuration file is. A file of its name that is no program
// does not hide a later one. The error says where was looked, or what is wrong with what
// is there.
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
	case errors.Is(err, fs.ErrPermission):
		return (*User)(nil).mayUse(path, Execute)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", path)
	}
	return (*User)(nil).mayUse(path, Execute)
}

// CheckProgram returns what keeps a user from executing a program, with the cure: also what is wrong with the
// interpreter of a script, which env(1) looks up in the directories of search, if they are known.
func (u *User) CheckProgram(path, search string) error {
	interpreter, mode := interpreterOf(path), Execute
	if len(interpreter) > 0 {
		mode |= Read
	}
	if err := u.mayUse(path, mode); err != nil || len(interpreter) == 0 {
		return err
	}
	at, name := interpreter[0], interpreter[len(interpreter)-1]
	_, err := os.Stat(at)
	isEnv := len(interpreter) == 2 && filepath.Base(at) == "env" && name[0] != '-' && !strings.ContainsAny(name, "=/")
	if isEnv && search != "" && !slices.ContainsFunc(filepath.SplitList(search), func(dir string) bool { return executable(filepath.Join(dir, name)) == nil }) {
		at, err = name, fs.ErrNotExist
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("its first line names the interpreter %q, which does not exist: install it, or correct the line", at)
	}
	return u.mayUse(at, Execute)
}

// mayUse returns what keeps a user from using a program by a mode, with the cure.
func (u *User) mayUse(path string, mode uint32) error {
	switch closed, above := u.Closed(path, mode); {
	case above:
		return fmt.Errorf("user %s cannot enter %s: move the program to where it can, such as /usr/local/bin, and chmod 755 it", u, closed)
	case closed != "":
		return fmt.Errorf("%s is not for user %s to execute: chmod 755 %[1]s", closed, u)
	}
	return nil
}

// interpreterOf returns the interpreter that the first line of a script names, and its argument; none: it is no script.
func interpreterOf(path string) []string {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return nil
	}
	defer file.Close()
	line, _ := bufio.NewReader(io.LimitReader(file, 256)).ReadString('\n') // the kernel reads no more
	if !strings.HasPrefix(line, "#!") {
		return nil
	}
	return strings.FieldsFunc(line[2:], func(r rune) bool { return strings.ContainsRune(" \t\n", r) }) // \r is of the name
}
