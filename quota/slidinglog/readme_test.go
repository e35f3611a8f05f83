package slidinglog

import (
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"quotad/quota"
)

// The bytes that the page explains are those of a record.
func TestReadmeRecord(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var shown string
	for _, line := range regexp.MustCompile(`(?m)^    ((?:[0-9a-f]{2} )+)`).FindAllStringSubmatch(string(page), -1) {
		shown += strings.ReplaceAll(line[1], " ", "")
	}
	r := Record{
		Tag: Tag{0x5e, 0x11, 0x70, 0x0b, 0xa2, 0x94, 0xd3, 0x68, 0x1c, 0x40, 0x77, 0xe9}, Host: HostID{0x8f, 0x21, 0x0c, 0x6a, 0x53, 0xe7, 0x9b, 0x04},
		Run: 0x0badcafe, Terms: [4]byte{0xd4, 0x1d, 0x8c, 0xd9}, Most: 1 << 30 / 100, Since: 1_767_225_600_000,
		Entries: []quota.Entry{{
			By: "trending", Region: "US", Charges: []quota.Charge{{Limit: "daily", Units: 100}},
			Body: quota.Grant{Operation: "search.list", Count: 1},
		}},
	}
	if body := hex.EncodeToString(r.Body()); shown != body {
		t.Errorf("the page has %s, the record is %s", shown, body)
	}
}
