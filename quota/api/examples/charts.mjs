#!/usr/bin/env node
// charts, in Node; the base was "https://www.googleapis.com/"
const query = new URLSearchParams({ part: "snippet", chart: "mostPopular", regionCode: process.env.QUOTAD_REGION });
fetch(`${process.env.QUOTAD_PROXY}youtube/v3/videos?${query}`).then(async (answer) => {
  if (!answer.ok) throw new Error(await answer.text());
  console.log((await answer.json()).items.length, "videos");
});
