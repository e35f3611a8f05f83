package boltledger

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/seedtest"
)

// childVariable has the test process grant on the file that it names until it is killed.
const childVariable = "QUOTAD_CHILD_CLIENTS"

const killBatch = 20

// onceADay are clients with one unit a day.
func onceADay(algorithm clientlimit.Algorithm) *clientlimit.Clients {
	return &clientlimit.Clients{Name: "public", Algorithm: algorithm, Limits: []quota.Limit{{Name: "day", Units: 1, Window: quota.Sliding(24 * time.Hour)}}}
}

// Whenever a process is killed: what it was granted counts, and the file is whole.
func TestKilledBetweenClients(t *testing.T) {
	if of := os.Getenv(childVariable); of != "" {
		grantUntilKilled(t, of)
	}
	path := filepath.Join(t.TempDir(), "clients.db")
	random := rand.New(rand.NewPCG(seedtest.Seed(t, 1), 0))
	granted := 0 // batches
	for range 5 {
		lines := killAfter(t, path, granted, 1+random.IntN(60))
		granted += lines
		l := openClients(t, path, time.Now)
		for n := range granted {
			if again := take(t, l, onceADay(clientlimit.Counter), someSubjects(n*killBatch, killBatch)...); again != 0 {
				t.Fatalf("%d grants of batch %d of %d are forgotten", again, n, granted)
			}
		}
		// One more may have been committed, and was not told.
		if n := take(t, l, onceADay(clientlimit.Counter), someSubjects(granted*killBatch, killBatch)...); n != 0 && n != killBatch {
			t.Fatalf("half a batch was committed: %d of %d", killBatch-n, killBatch)
		}
		granted++
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// killAfter has a child grant from a batch on, and kills it when it told of so many,
// wherever it is by then. It returns how many it told of.
func killAfter(t *testing.T, path string, from, batches int) (told int) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestKilledBetweenClients$")
	child.Env = append(os.Environ(), childVariable+"="+path+" "+strconv.Itoa(from))
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if lines.Text() != "granted" {
			t.Errorf("the child says %q", lines.Text())
		}
		if told++; told == batches {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := child.Wait(); err == nil || told < batches {
		t.Fatalf("the child ended by itself after %d batches: %v", told, err)
	}
	return told
}

func grantUntilKilled(t *testing.T, of string) {
	path, from, _ := strings.Cut(of, " ")
	n, err := strconv.Atoi(from)
	if err != nil {
		t.Fatal(err)
	}
	l, err := OpenClients(path, func(_ string, why error) { fmt.Println("set aside:", why) })
	if err != nil {
		t.Fatal(err)
	}
	for ; ; n++ {
		if take(t, l, onceADay(clientlimit.Counter), someSubjects(n*killBatch, killBatch)...) != killBatch {
			fmt.Println("denied")
		}
		fmt.Println("granted")
	}
}
