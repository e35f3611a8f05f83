package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartTLS starts a Redis that speaks TLS only, and knows its clients by their
// certificates. It returns what such a client needs.
func StartTLS(tb testing.TB) (*Server, *tls.Config) {
	tb.Helper()
	need(tb)
	s := prepare(tb, "--save", "", "--appendonly", "no", "--port", "0")
	authority := newAuthority(tb)
	authority.writeTo(tb, s.dir, "ca")
	server := authority.sign(tb, "server")
	server.writeTo(tb, s.dir, "server")
	file := func(name string) string { return filepath.Join(s.dir, name) }
	port := freePorts(tb, 1)[0]
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	s.args = append(s.args, "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", "yes",
		"--tls-ca-cert-file", file("ca.crt"), "--tls-cert-file", file("server.crt"), "--tls-key-file", file("server.key"))
	s.Run(tb)

	client := authority.sign(tb, "client")
	roots := x509.NewCertPool()
	roots.AddCert(authority.certificate)
	return s, &tls.Config{
		RootCAs:      roots,
		Certificates: []tls.Certificate{{Certificate: [][]byte{client.certificate.Raw}, PrivateKey: client.key}},
	}
}

// An identity is a certificate with its key.
type identity struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(tb testing.TB) identity {
	tb.Helper()
	return certify(tb, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, nil)
}

// sign returns an identity that is valid for all who trust the authority, at the
// loopback address.
func (a identity) sign(tb testing.TB, name string) identity {
	tb.Helper()
	return certify(tb, &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, &a)
}

// certify makes a key and has the issuer, or nil for itself, certify it.
func certify(tb testing.TB, template *x509.Certificate, issuer *identity) identity {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if issuer == nil {
		issuer = &identity{certificate: template, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, issuer.certificate, &key.PublicKey, issuer.key)
	if err != nil {
		tb.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return identity{certificate: certificate, key: key}
}

// writeTo writes name.crt and name.key.
func (id identity) writeTo(tb testing.TB, dir, name string) {
	tb.Helper()
	key, err := x509.MarshalECPrivateKey(id.key)
	if err != nil {
		tb.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: id.certificate.Raw},
		name + ".key": {Type: "EC PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}
