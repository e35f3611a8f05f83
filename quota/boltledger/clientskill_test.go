package boltledger

import (
	"fmt"
	"math/rand/v2"
	"os"
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
		from := path + " " + strconv.Itoa(granted)
		killed(t, t.Name(), childVariable, from, 1+random.IntN(60), func(line string) {
			if line != "granted" {
				t.Errorf("the child says %q", line)
			}
			granted++
		})
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
