package redisledger

import (
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

var recordKeys = []string{"{job:a}", "{job:a}:mark:DE"}

// swapRecords swaps the records, a second from now at the latest.
func swapRecords(t *testing.T, s *Store, read string, values ...string) (swapped bool, found string, err error) {
	t.Helper()
	_, clocks, err := s.ReadRecords(t.Context(), recordKeys[:1])
	if err != nil {
		t.Fatal(err)
	}
	var next [][]byte
	for _, value := range values {
		next = append(next, []byte(value))
	}
	swapped, was, _, err := s.SwapRecord(t.Context(), recordKeys[:len(values)], []byte(read), next, clocks[0].Add(time.Second))
	return swapped, string(was), err
}

func readRecords(t *testing.T, s *Store) (values [2]string) {
	t.Helper()
	found, _, err := s.ReadRecords(t.Context(), recordKeys)
	if err != nil {
		t.Fatal(err)
	}
	return [2]string{string(found[0]), string(found[1])}
}

func TestRecordsAreSwappedAsTheyWereRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	for _, step := range []struct {
		name    string
		read    string
		next    []string
		swapped bool
		found   string
		left    [2]string
	}{
		{"where there is none", "", []string{"1"}, true, "", [2]string{"1", ""}},
		{"where one is unexpected", "", []string{"2"}, false, "1", [2]string{"1", ""}},
		{"with another key", "1", []string{"2", "b"}, true, "", [2]string{"2", "b"}},
		{"with another key, of an older record", "1", []string{"3", "c"}, false, "2", [2]string{"2", "b"}},
	} {
		swapped, found, err := swapRecords(t, s, step.read, step.next...)
		if err != nil || swapped != step.swapped || found != step.found {
			t.Errorf("%s: swapped %v, found %q, %v; want %v, %q", step.name, swapped, found, err, step.swapped, step.found)
		}
		if left := readRecords(t, s); left != step.left {
			t.Errorf("%s: the records are %q, want %q", step.name, left, step.left)
		}
	}
}

func TestALateSwapWritesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	_, clocks, err := s.ReadRecords(t.Context(), recordKeys)
	if err != nil {
		t.Fatal(err)
	}
	swapped, _, now, err := s.SwapRecord(t.Context(), recordKeys[:1], nil, [][]byte{[]byte("1")}, clocks[0].Add(-time.Millisecond))
	if err != nil || swapped || now.Before(clocks[0]) {
		t.Errorf("swapped %v at %v, %v", swapped, now, err)
	}
	if left := readRecords(t, s); left != [2]string{} {
		t.Errorf("the records are %q", left)
	}
}

func TestRecordsExpire(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	if _, _, err := swapRecords(t, s, "", "1", "a"); err != nil {
		t.Fatal(err)
	}
	for _, key := range recordKeys {
		left := time.Duration(server.Do(t, "PTTL", "quotad:"+key).(int64)) * time.Millisecond
		if day := 24 * time.Hour; left < 400*day-time.Hour || left > 400*day+time.Hour {
			t.Errorf("%s expires in %v", key, left)
		}
	}
}

// Who gets no answer does not know; who reaches nobody has written nothing.
func TestWhatBecameOfASwap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openStoreAt(t, Config{Addrs: []string{proxy.Addr}})
	if _, _, err := swapRecords(t, s, "", "1"); err != nil {
		t.Fatal(err)
	}
	proxy.Meet(redistest.Pass, redistest.CutAfter) // it reads first
	if _, _, err := swapRecords(t, s, "1", "2"); !errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("without an answer: %v", err)
	}
	if left := readRecords(t, s); left[0] != "2" {
		t.Errorf("the record is %q", left[0])
	}
	server.Kill()
	s = openStoreAt(t, Config{Addrs: []string{server.Addr}}) // no connection is open
	if _, _, _, err := s.SwapRecord(t.Context(), recordKeys[:1], nil, [][]byte{{}}, time.Now()); !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("without a server: %v", err)
	}
	if _, clocks, err := s.ReadRecords(t.Context(), recordKeys); !errors.Is(err, quota.ErrUnavailable) || !clocks[0].IsZero() {
		t.Errorf("without a server: %v, %v", clocks, err)
	}
}
