package page

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
)

// hostsOf returns the names by which a browser on this machine reaches an address of it.
func hostsOf(address net.Addr) []string {
	_, port, _ := net.SplitHostPort(address.String())
	names := []string{address.String()}
	for _, host := range []string{"127.0.0.1", "localhost", "::1"} {
		names = append(names, net.JoinHostPort(host, port))
	}
	if port == "80" { // browsers leave it out
		names = append(names, "127.0.0.1", "localhost", "[::1]")
	}
	return names
}

// guard admits only requests that a browser on this machine makes for this page itself. It
// refuses others, such as one by another site's name for this address. It checks Host,
// which each request has, and not Origin, which a GET need not have.
func guard(hosts []string, policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case !slices.Contains(hosts, strings.ToLower(r.Host)):
			http.Error(w, fmt.Sprintf("this page is called %s", strings.Join(hosts[:1], "")), http.StatusForbidden)
		case !fromHere(r.Header.Get("Sec-Fetch-Site")):
			http.Error(w, "this page is not for other sites: type its address", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "this page is read only", http.StatusMethodNotAllowed)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// fromHere reports whether a request comes from this page, from an address that a person
// typed, or from a program that is no browser.
func fromHere(site string) bool { return site == "" || site == "none" || site == "same-origin" }
