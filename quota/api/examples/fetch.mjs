// Asks quotad inside a pass before its only call: exit 75 if it is denied.
import http from "node:http";

function acquire(operation) {
  const { QUOTAD_SOCKET: socketPath, QUOTAD_TOKEN: token } = process.env;
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/x-www-form-urlencoded" };
  const fail = (what) => { console.error("quotad:", what); process.exit(1); };
  return new Promise((granted) => {
    http.request({ socketPath, path: "/v1/acquire", method: "POST", headers, timeout: 5000 }, (answer) => {
      if (answer.statusCode === 429) process.exit(75);
      if (answer.statusCode !== 200) fail(answer.statusCode);
      answer.resume().on("end", granted);
    }).on("timeout", () => fail("no answer")).on("error", fail).end(`operation=${operation}`);
  });
}

await acquire("videos.list");
// granted: the call
