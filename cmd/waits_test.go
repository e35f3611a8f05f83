package cmd

import (
	"regexp"
	"strings"
	"testing"
)

// A busy machine keeps no time. So a test waits for what happens, with a time-out of a minute or more that only ends
// what hangs, or plays in a bubble of testing/synctest, as all tests of these packages do.
var (
	waits   = regexp.MustCompile(`time\.Sleep\(|(time\.After\(|WithTimeout\([^,\n]*,)[^)\n]*\b(time\.(Micro|Milli|)[sS]econd|ms)\b`)
	bubbles = regexp.MustCompile(`(?m)synctest|^\.\./(jobs|jobs/scheduler|quota/slidinglog)/[^/]*$`)
)

// mayWait has how often the tests of a file may wait all the same: the delay is the fault, or the moment of a kill; or
// nobody has mended it yet.
var mayWait = map[string]int{
	"jobs/process/main_test.go": 1, "jobs/process/output_test.go": 2, "quota/api/client_test.go": 2,
	"quota/proxy/attack_test.go": 1, "quota/proxy/flood_test.go": 1, "quota/redisledger/deployments_test.go": 1,
	"quota/redisledger/faults_test.go": 2, "quota/redisledger/store_test.go": 1, "quota/server/shutdown_test.go": 1,
}

func TestTestsWaitForNoTime(t *testing.T) {
	walkFiles(t, "_test.go", func(path string) {
		text := readFile(t, path)
		found := waits.FindAllString(text, -1)
		if name := strings.TrimPrefix(path, "../"); len(found) > mayWait[name] && !bubbles.MatchString(path+"\n"+text) && !strings.HasPrefix(name, "quota/benchmark/") {
			t.Errorf("%s waits %d times, at most %d are allowed: %q", name, len(found), mayWait[name], found)
		}
	})
}
