package servertest

import (
	"bufio"
	"encoding/gob"
	"net/http"
	"net/url"

	"quotad/quota/api"
)

// Batches answers the streams of Go's client by a function.
func Batches(answer func(form url.Values) api.BatchAnswer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		control.EnableFullDuplex()
		w.Header().Set("Transfer-Encoding", "identity")
		lines, answers := bufio.NewScanner(r.Body), gob.NewEncoder(w)
		for lines.Scan() {
			form, err := url.ParseQuery(lines.Text())
			if err != nil {
				panic(err)
			}
			if answers.Encode(answer(form)) != nil || control.Flush() != nil {
				return
			}
		}
	}
}
