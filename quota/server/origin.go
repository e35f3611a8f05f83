package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"quotad/quota"
	"quotad/quota/api"
)

// checkOrigin refuses the requests of web pages, which could reach the socket through a proxy on
// this host. A page may not even read, which http.CrossOriginProtection would allow. It also
// refuses paths that http.ServeMux would answer with a redirect, which curl takes for success.
// A remote caller may use any host name: its token identifies it.
func (s *Server) checkOrigin(r *http.Request, remote bool) *api.Problem {
	if len(r.URL.Path) > maxPath {
		return api.NewProblem(quota.BadRequest, "the path has more than %d bytes", maxPath)
	}
	if !remote && !isLocal(r.Host) {
		return s.foreignHost(r)
	}
	for _, name := range [...]string{"Origin", "Referer", "Sec-Fetch-Site"} {
		// Site "none": a person typed the address, no page sent it.
		if values := r.Header[name]; values != nil && !(name == "Sec-Fetch-Site" && len(values) == 1 && values[0] == "none") {
			return api.NewProblem(quota.Forbidden, "a request of a browser (it has the header %s) is not answered", name)
		}
	}
	path := r.URL.EscapedPath() // a name in it may hold a slash, and begin with a dot
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "//") || strings.Contains(path+"/", "/./") || strings.Contains(path+"/", "/../") {
		return notFound(r.URL.Path)
	}
	return nil
}

// isLocal reports whether a Host header names this daemon: quotad, localhost, a
// loopback address, or nothing. An attacker could make any other name point here.
func isLocal(host string) bool {
	if host == "quotad" || host == "localhost" || host == "" { // what clients send
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "quotad") || strings.EqualFold(host, "localhost")
}

// foreignHost explains a common mistake: the host of http://v1/acquire is "v1".
func (s *Server) foreignHost(r *http.Request) *api.Problem {
	if s.firstWords[r.Host] {
		return notFound(r.URL.Path).WithHint("the address lacks a host name: write http://quotad/" + r.Host + r.URL.Path)
	}
	return api.NewProblem(quota.Forbidden, "the host %.80q is not this daemon", r.Host).WithHint("over the socket, write http://quotad" + r.URL.Path)
}

func notFound(path string) *api.Problem {
	return api.NewProblem(api.NotFound, "there is nothing at %.80q: GET /v1 lists the routes", path)
}
