// Package redistest starts Redis for tests, as processes of their own: one server (server.go), on a port, by TLS, a Cluster (deployments.go), a
// master with replicas and Sentinels (sentinel.go), and a proxy that loses replies or is far away (proxy.go).
//
// Each server has a directory and a Unix socket of its own, and ends with its test.
package redistest
