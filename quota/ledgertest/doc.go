// Package ledgertest holds the contract of quota.Ledger as a test suite, and the naive model that ledgers are compared
// with. slidinglog runs both on its engine in memory, for one host and for two; redisledger on a Redis.
//
// Run (suite.go) gives a ledger small histories, each at times of its own on a [Clock] that tests set (history.go).
// Random histories (random.go) are played to a ledger and to the [Model] (model.go), which sums its whole log for each
// decision, and every answer is compared. The model is a ledger for the tests of those who need any.
//
// RunClients, RandomClients and [ClientModel] (clients*.go) are the same for the ledger of client limits on a store;
// [ClientStore] is one in memory, which can be away.
package ledgertest
