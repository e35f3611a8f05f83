(async () => {
	const headers = Object.fromEntries(process.env.HEADERS.split("\n").filter(Boolean).map((line) => [line.split(": ")[0], line.slice(line.indexOf(": ") + 2)]));
	for (const call of process.env.CALLS.split("\n")) {
		const [method, path] = [call.split(" ")[0], call.slice(call.indexOf(" ") + 1)];
		const answer = await fetch(process.env.QUOTAD_PROXY + path, { method, headers, body: method === "POST" ? "{}" : undefined });
		await answer.arrayBuffer();
		console.log(answer.status);
	}
})();
