//! Where requests go, whatever urls and names say.

use super::*;
use std::sync::Mutex;

/// A resolver that answers the n-th question with the n-th list, and the last one for ever.
struct Told {
    answers: Vec<Vec<&'static str>>,
    asked: Mutex<usize>,
}

impl Told {
    fn new(answers: &[&[&'static str]]) -> Arc<Self> {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        Arc::new(Self { answers, asked: Mutex::new(0) })
    }
}

impl Names for Told {
    fn look_up(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let mut asked = self.asked.lock().unwrap();
        let answer = &self.answers[(*asked).min(self.answers.len() - 1)];
        *asked += 1;
        let answer = answer.iter().map(|text| text.parse().unwrap()).collect();
        Box::pin(async move { Ok(answer) })
    }
}

fn guard(reach: Reach, allowed: &[&str], names: Arc<Told>) -> Guard {
    let allowed: Vec<IpNet> = allowed.iter().map(|network| network.parse().unwrap()).collect();
    Guard::new(reach, allowed.into(), names)
}

async fn resolved(guard: &Guard) -> Result<Vec<String>, String> {
    match guard.resolve("receiver.example".parse().unwrap()).await {
        Ok(addresses) => Ok(addresses.map(|address| address.to_string()).collect()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test]
async fn a_name_that_changes_its_mind_is_judged_by_what_it_says_each_time() {
    let guard = guard(Reach::Public, &[], Told::new(&[&["8.8.8.8"], &["127.0.0.1"], &["8.8.4.4"]]));
    assert_eq!(resolved(&guard).await, Ok(vec!["8.8.8.8:0".to_owned()]), "and it is connected to this one");
    assert_eq!(resolved(&guard).await, Err("127.0.0.1 is not called: this machine".to_owned()));
    assert_eq!(resolved(&guard).await, Ok(vec!["8.8.4.4:0".to_owned()]));
}

#[tokio::test]
async fn one_refused_address_refuses_the_whole_name() {
    for mixed in [
        &["8.8.8.8", "10.0.0.1"][..],
        &["10.0.0.1", "8.8.8.8"],
        &["8.8.8.8", "::1"],
        &["2606:4700::1111", "8.8.8.8", "fd00::1"],
        &["8.8.8.8", "::ffff:169.254.169.254"],
    ] {
        let guard = guard(Reach::Public, &[], Told::new(&[mixed]));
        assert!(resolved(&guard).await.is_err(), "{mixed:?}");
    }
    let public = guard(Reach::Public, &[], Told::new(&[&["8.8.8.8", "2606:4700::1111"]]));
    assert_eq!(resolved(&public).await.map(|addresses| addresses.len()), Ok(2));
    let nobody = guard(Reach::Public, &[], Told::new(&[&[]]));
    assert_eq!(resolved(&nobody).await, Err("no address".to_owned()));
}

#[tokio::test]
async fn without_tls_only_networks_of_the_installation_are_called() {
    let own = |answer| guard(Reach::Own, &["10.1.0.0/16"], Told::new(&[answer]));
    assert!(resolved(&own(&["10.1.2.3"])).await.is_ok());
    assert!(resolved(&own(&["::ffff:10.1.2.3"])).await.is_ok(), "the same address");
    assert!(resolved(&own(&["8.8.8.8"])).await.is_err());
    assert!(resolved(&own(&["10.2.0.1"])).await.is_err());
    let with_tls = guard(Reach::Public, &["10.1.0.0/16"], Told::new(&[&["10.1.2.3", "8.8.8.8"]]));
    assert!(resolved(&with_tls).await.is_ok());
}

#[test]
fn an_address_in_a_url_is_judged_in_every_spelling() {
    let guard = guard(Reach::Public, &[], Told::new(&[&["8.8.8.8"]]));
    let judged = |host: &str| match Url::parse(&format!("https://{host}/hook")) {
        // The client does not even get as far as us.
        Err(_) => Err(Fault::Url),
        Ok(url) => guard.judge_host(&url),
    };
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "127.0.0.1:8443",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "0",
        "0.0.0.0",
        "10.0.0.1",
        "192.168.0.1",
        "172.16.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "168.63.129.16",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:7f00:1::]",
        "[2001:0:1::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[fe80::1]",
        "[ff02::1]",
        "[2001:db8::1]",
    ] {
        assert_eq!(judged(host), Err(Fault::Forbidden), "{host}");
    }
    for host in ["[fe80::1%25eth0]", "256.0.0.1", "1.2.3.4.5", "127.0.0.08", "a..b", "exa mple"] {
        assert_eq!(judged(host), Err(Fault::Url), "{host}");
    }
    for host in ["8.8.8.8", "[2606:4700::1111]", "receiver.example", "localhost", "xn--bcher-kva.example"] {
        assert_eq!(judged(host), Ok(()), "{host}: a name is judged when it is resolved");
    }
}
