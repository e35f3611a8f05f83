// Package crontab reads crontabs, as quotad init makes jobs of them. It does no I/O.
package crontab
