package redistest

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// read reads one message of Redis' protocol, a command or a reply. It returns what the message says (a string, an
// int64, nil, an error, or a list of these, maps as lists too) and appends the bytes as they came to raw.
func read(in *bufio.Reader, raw []byte) (value any, _ []byte, err error) {
	line, err := in.ReadString('\n')
	raw = append(raw, line...)
	if err != nil || len(line) < 3 {
		return nil, raw, fmt.Errorf("no message of Redis: %.40q: %w", line, err)
	}
	kind, text := line[0], strings.TrimSuffix(line[1:], "\r\n")
	switch kind {
	case '+', ',', '(', '#', '_':
		return text, raw, nil
	case '-':
		return fmt.Errorf("%s", text), raw, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return nil, raw, fmt.Errorf("no message of Redis: %.40q", line)
	case kind == ':':
		return int64(n), raw, nil
	case n < 0:
		return nil, raw, nil
	case strings.ContainsRune("$=!", rune(kind)):
		bulk := make([]byte, n+2)
		_, err := io.ReadFull(in, bulk)
		return string(bulk[:n]), append(raw, bulk...), err
	case kind == '%' || kind == '|':
		n *= 2
	}
	list := make([]any, n)
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
