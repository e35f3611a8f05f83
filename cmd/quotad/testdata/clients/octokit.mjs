// Fetches the pages of a list with GitHub's own client, which waits as long as a limit says, but
// not for more than a minute.
import { Octokit } from "@octokit/core";
import { paginateRest } from "@octokit/plugin-paginate-rest";
import { retry } from "@octokit/plugin-retry";
import { throttling } from "@octokit/plugin-throttling";

const patient = (retryAfter, options, octokit, retryCount) => retryAfter <= 60 && retryCount < 3;
const octokit = new (Octokit.plugin(paginateRest, retry, throttling))({
  baseUrl: process.env.QUOTAD_PROXY.slice(0, -1),
  throttle: { onRateLimit: patient, onSecondaryRateLimit: patient },
});
await octokit.paginate("GET /repos/{owner}/{repo}/issues", { owner: "o", repo: "r" });
