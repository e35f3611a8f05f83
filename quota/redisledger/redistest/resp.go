package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// read reads one message of Redis' protocol, a command or a reply. It returns
// what the message says (a string, an int64, nil, an error, or a list of these,
// maps as lists too) and appends the bytes as they came to raw.
func read(in *bufio.Reader, raw []byte) (value any, _ []byte, err error) {
	line, err := in.ReadString('\n')
	raw = append(raw, line...)
	if err != nil {
		return nil, raw, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, raw, fmt.Errorf("an empty line where a message begins")
	}
	kind, text := line[0], line[1:]
	switch kind {
	case '+', ',', '(', '#', '_':
		return text, raw, nil
	case '-':
		return fmt.Errorf("%s", text), raw, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, raw, fmt.Errorf("not a message of Redis: %.40q", line)
	}
	switch kind {
	case ':':
		return n, raw, nil
	case '$', '=', '!':
		return readBulk(in, raw, n)
	case '%', '|':
		n *= 2
	case '*', '~', '>':
	default:
		return nil, raw, fmt.Errorf("not a message of Redis: %.40q", line)
	}
	return readList(in, raw, n)
}

func readBulk(in *bufio.Reader, raw []byte, n int64) (any, []byte, error) {
	if n < 0 {
		return nil, raw, nil
	}
	bulk := make([]byte, n+2)
	_, err := io.ReadFull(in, bulk)
	return string(bulk[:n]), append(raw, bulk...), err
}

func readList(in *bufio.Reader, raw []byte, n int64) (any, []byte, error) {
	if n < 0 {
		return nil, raw, nil
	}
	list := make([]any, n)
	var err error
	for i := range list {
		if list[i], raw, err = read(in, raw); err != nil {
			return nil, raw, err
		}
	}
	return list, raw, nil
}

// format writes a command as a list of strings.
func format(args []string) []byte {
	command := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(arg), arg)
	}
	return command
}
