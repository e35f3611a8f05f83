// Package systemd_test holds the units against systemd.
//
// units_test.go asks systemd's own verifier, and its measure of exposure. The other tests
// build a clone, install it as README.md says into a machine (machine_test.go), a Debian in
// a directory, boot that in a container, and look at what happens there: boot_test.go,
// and for each part of the behaviour a file. They need root and systemd-nspawn, and run
// where QUOTAD_TEST_BOOT is set.
package systemd_test
